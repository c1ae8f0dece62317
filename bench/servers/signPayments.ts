// Signs payments for the paid links of the benches and writes them to files, one PAYMENT-SIGNATURE a line, each with a
// nonce of its own. In its first argument: {files: [{file, count}]}. Prints how many.
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { authorizationDigest, domainSeparator } from '../../adapters/chains/evm/check/authorization.ts'
import { keccak256 } from '../../core/evm/hex.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import { amountAtomic, asset, domain, network, payTo } from './offer.ts'

const { files } = JSON.parse(process.argv[2]!) as { files: { file: string; count: number }[] }
const curve = createRequire(import.meta.url)('secp256k1') as {
  publicKeyCreate(key: Uint8Array, compressed: boolean): Uint8Array
  ecdsaSign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
}
const separator = domainSeparator({ ...domain, verifyingContract: asset })
const hex = (bytes: Uint8Array) => `0x${Buffer.from(bytes).toString('hex')}`
const payers = Array.from({ length: 64 }, () => {
  const key = randomBytes(32)
  const from = hex(keccak256(curve.publicKeyCreate(key, false).subarray(1)).subarray(12))
  return { key, from }
})
// A client's own order and names, in the 402's own words, so that the header has the length it has in life.
const accepted = {
  scheme: 'exact',
  network,
  amount: amountAtomic,
  asset,
  payTo,
  maxTimeoutSeconds: 300,
  extra: { name: domain.name, version: domain.version },
}
const resource = { url: 'http://gateway.test/api/link/demo/paid', description: 'Answers with fixed bytes.' }

let made = 0
function sign(): string {
  const { key, from } = payers[made++ % payers.length]!
  const nowSeconds = Math.floor(Date.now() / 1000)
  const authorization = {
    from,
    to: payTo,
    value: amountAtomic,
    validAfter: String(nowSeconds - 600),
    validBefore: String(nowSeconds + 300),
    nonce: hex(randomBytes(32)),
  }
  const digest = authorizationDigest(separator, { ...authorization, signature: '' })
  const { signature, recid } = curve.ecdsaSign(digest, key)
  const payload = { authorization, signature: hex(Buffer.from([...signature, 27 + recid])) }
  return encodeHeader({ x402Version: 2, payload, resource, accepted })
}

for (const { file, count } of files)
  writeFileSync(file, `${Array.from({ length: count }, sign).join('\n')}\n`)
console.log(JSON.stringify({ made }))
