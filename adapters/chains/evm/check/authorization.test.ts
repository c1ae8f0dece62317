import fc from 'fast-check'
import t from 'tap'
import { getAddress, hashTypedData, toHex, keccak256 as viemKeccak } from 'viem'
import { checksumAddress } from '../../../../core/evm/address.ts'
import { keccak256 } from '../../../../core/evm/keccak.ts'
import { transferTypes } from '../../../../core/x402/transferTypes.ts'
import type { Hex } from '../rpc/hex.ts'
import { authorizationDigest, domainSeparator } from './authorization.ts'

const hexOf = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`
const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length }).map((b) => hexOf(b))
const uint256 = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }),
  fc.nat().map(BigInt),
  fc.constantFrom(
    0n,
    1n,
    2n ** 32n - 1n,
    2n ** 32n,
    2n ** 53n,
    999_999_999_999_999n,
    10n ** 15n,
    2n ** 256n - 1n,
  ),
)

t.test('the digest is the EIP-712 hash that viem computes, for any authorisation and token', async () => {
  const run = fc.property(
    fc.record({
      from: bytes(20),
      to: bytes(20),
      value: uint256,
      validAfter: uint256,
      validBefore: uint256,
      nonce: bytes(32),
      // viem leaves an empty name or version out of the domain type.
      name: fc.string({ unit: 'binary', minLength: 1 }),
      version: fc.string({ minLength: 1 }),
      chainId: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
      verifyingContract: bytes(20),
    }),
    ({ name, version, chainId, verifyingContract, ...message }) => {
      const domain = { name, version, chainId, verifyingContract }
      const separator = domainSeparator(domain)
      const ours = authorizationDigest(separator, {
        ...message,
        value: String(message.value),
        validAfter: String(message.validAfter),
        validBefore: String(message.validBefore),
        signature: '0x',
      })
      const theirs = hashTypedData({
        domain,
        types: transferTypes,
        primaryType: 'TransferWithAuthorization',
        message,
      })
      return hexOf(ours) === theirs
    },
  )
  fc.assert(run, { numRuns: 200 })
})

t.test('keccak-256 and the checksum of an address agree with viem', async () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 500 }), (b) => hexOf(keccak256(b)) === viemKeccak(toHex(b))),
  )
  fc.assert(fc.property(bytes(20), (address) => checksumAddress(address) === getAddress(address)))
})
