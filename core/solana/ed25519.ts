import { createPublicKey, verify } from 'node:crypto'

/**
 * Encodings of the points of small order, sign bit cleared: y = 0, 1, the two of order 8, p − 1, and the spellings p and
 * p + 1 of 0 and 1 (RFC 8032, section 5.1.3 forbids the last two, some decoders take them).
 */
const smallOrder = [
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
].map((hex) => Buffer.from(hex, 'hex'))

/**
 * Verifies an Ed25519 signature as strictly as a cluster does (`verify_strict`): beside the equation and the canonical
 * S that node:crypto checks, neither the key nor R may be of small order. OpenSSL before 3.5 takes such keys, and for
 * some of them anybody can sign anything: the all-zero key is the System program's address, so a payment "signed" by it
 * would pass here and never on chain. Never throws.
 *
 * @param key       32 bytes
 * @param signature 64 bytes
 */
export function verifyEd25519(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (key.length !== 32 || signature.length !== 64) return false
  if (hasSmallOrder(key) || hasSmallOrder(signature)) return false
  try {
    // As a JWK a key is read in a third of the time that DER takes (RFC 8037).
    const x = Buffer.from(key.buffer, key.byteOffset, 32).toString('base64url')
    const jwk = { kty: 'OKP', crv: 'Ed25519', x }
    return verify(null, message, createPublicKey({ key: jwk, format: 'jwk' }), signature)
  } catch {
    return false
  }
}

/** Whether the first 32 bytes are a point of small order. */
function hasSmallOrder(point: Uint8Array): boolean {
  for (const small of smallOrder) {
    let i = 0
    while (i < 31 && point[i] === small[i]) i++
    if (i === 31 && (point[31]! & 0x7f) === small[31]) return true
  }
  return false
}
