import { keccak_256 } from '@noble/hashes/sha3.js'

/**
 * The address of an uncompressed secp256k1 public key (65 bytes, the first is 4), with its checksum in the letters'
 * case: the last 20 bytes of keccak-256 over the 64 bytes. @see https://eips.ethereum.org/EIPS/eip-55
 */
export function evmAddress(publicKey: Uint8Array): string {
  if (publicKey.length !== 65 || publicKey[0] !== 4) {
    throw new RangeError(`Expected an uncompressed public key of 65 bytes, got ${publicKey.length}.`)
  }
  const digits = Buffer.from(keccak_256(publicKey.subarray(1)))
    .subarray(12)
    .toString('hex')
  const check = Buffer.from(keccak_256(Buffer.from(digits, 'latin1'))).toString('hex')
  let address = '0x'
  for (let i = 0; i < 40; i++) address += check[i]! > '7' ? digits[i]!.toUpperCase() : digits[i]!
  return address
}
