import fc from 'fast-check'
import t from 'tap'
import { keccak256 } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { Hex } from '../rpc/nodes.ts'
import {
  addressOfKey,
  callOf,
  limitsOf,
  loadNativeSecp256k1,
  loadNobleSecp256k1,
  signTransaction,
} from './transaction.ts'

const hex = (minLength: number, maxLength = minLength) =>
  fc.uint8Array({ minLength, maxLength }).map((bytes): Hex => `0x${Buffer.from(bytes).toString('hex')}`)
/** Includes both ends of every length that RLP encodes differently. */
const numbers = fc.oneof(
  fc.nat(),
  fc.constantFrom(0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x10000, 2 ** 32, Number.MAX_SAFE_INTEGER),
)
const wei = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }),
  fc.constantFrom(0n, 1n, 127n, 128n, 2n ** 64n),
)
const data = fc.oneof(hex(0, 300), hex(0), hex(1), hex(55), hex(56), hex(255), hex(256))
const keys = hex(32).filter((key) => BigInt(key) > 0n && BigInt(key) < order)
const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

const curves = [loadNativeSecp256k1(), loadNobleSecp256k1()]

t.test('a transaction is signed byte for byte as viem signs it, by either arithmetic', async () => {
  const transactions = fc.record({
    chainId: numbers.filter((id) => id > 0),
    nonce: numbers,
    gas: numbers,
    maxFeePerGas: wei,
    maxPriorityFeePerGas: wei,
    to: hex(20),
    data,
  })
  const run = fc.asyncProperty(transactions, keys, async (transaction, key) => {
    const [tip, most] = [transaction.maxPriorityFeePerGas, transaction.maxFeePerGas].sort((a, b) =>
      a < b ? -1 : 1,
    )
    const fees = { maxPriorityFeePerGas: tip!, maxFeePerGas: most! }
    const theirs = await privateKeyToAccount(key).signTransaction({
      type: 'eip1559',
      ...transaction,
      ...fees,
      gas: BigInt(transaction.gas),
    })
    for (const curve of curves) {
      const ours = signTransaction({ ...transaction, ...fees }, Buffer.from(key.slice(2), 'hex'), curve)
      if (ours.bytes !== theirs || ours.hash !== keccak256(theirs)) return false
      const { to, data } = callOf(ours.bytes)
      if (to !== transaction.to || data !== transaction.data) return false
      const limits = limitsOf(ours.bytes)
      if (limits?.gas !== BigInt(transaction.gas) || limits.maxFeePerGas !== fees.maxFeePerGas) return false
    }
    return true
  })
  const long = `0x${'ab'.repeat(65_536)}` as Hex
  const longest = {
    chainId: 1,
    nonce: 1,
    gas: 1,
    maxFeePerGas: 1n,
    maxPriorityFeePerGas: 1n,
    to: `0x${'01'.repeat(20)}` as Hex,
  }
  await fc.assert(run, { numRuns: 200, examples: [[{ ...longest, data: long }, `0x${'02'.repeat(32)}`]] })
})

t.test('an account has the address that viem gives it, and what is no key has none', async (t) => {
  for (const curve of curves) {
    const run = fc.property(keys, (key) => {
      const address = addressOfKey(Buffer.from(key.slice(2), 'hex'), curve)
      return address === privateKeyToAccount(key).address.toLowerCase()
    })
    fc.assert(run, { numRuns: 50 })
    for (const none of [0n, order, 2n ** 256n - 1n]) {
      const key = Buffer.from(none.toString(16).padStart(64, '0'), 'hex')
      t.throws(() => addressOfKey(key, curve), `${none} by ${curve.name}`)
    }
  }
})
