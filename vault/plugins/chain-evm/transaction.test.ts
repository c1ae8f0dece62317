import { existsSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { secp256k1 } from '@noble/curves/secp256k1'
import fc from 'fast-check'
import t from 'tap'
import { keccak256 } from '../../../core/evm/keccak.ts'
import { readJsonTransaction } from './jsonTransaction.ts'
import { type RlpItem, readRlp, writeRlp } from './rlp.ts'
import { readTransaction, writeTransaction } from './transaction.ts'

const folder = new URL('../../../../shared/vectors/', import.meta.url)
const skip = !existsSync(folder) && 'no vectors'
const vectors = (name: string) =>
  JSON.parse(gunzipSync(readFileSync(new URL(`ethers_testcases_${name}.json.gz`, folder))).toString())
const bytesOf = (hex: string) => Buffer.from(hex.slice(2), 'hex')
const hexOf = (bytes: Uint8Array) => `0x${Buffer.from(bytes).toString('hex')}`

/** Reads, writes, signs and writes again: both must be what ethers wrote. */
function roundTrip(unsigned: string, signed: string, privateKey: string): string | undefined {
  const bytes = bytesOf(unsigned)
  const read = readTransaction(bytes)
  if (!read.ok) return read.message
  if (hexOf(writeTransaction(read.transaction)) !== unsigned) return 'written differently'
  const { r, s, recovery } = secp256k1.sign(keccak256(bytes), bytesOf(privateKey), { lowS: true })
  const mine = writeTransaction(read.transaction, { r, s, yParity: recovery as 0 | 1 })
  if (hexOf(mine) !== signed) return 'signed differently'
  return readTransaction(bytesOf(signed)).ok ? 'the signed one passes for unsigned' : undefined
}

t.test('ethers: legacy transactions, with and without a chain id', { skip }, async (t) => {
  let [count, tooMuchGas] = [0, 0]
  for (const v of vectors('transactions')) {
    const isTooMuchGas = BigInt(v.gasLimit?.slice(2) ? v.gasLimit : 0) >= 2n ** 64n
    const problems = [
      roundTrip(v.unsignedTransaction, v.signedTransaction, v.privateKey),
      roundTrip(v.unsignedTransactionChainId5, v.signedTransactionChainId5, v.privateKey),
    ]
    // No client holds a gas limit beyond 64 bits; ethers writes one.
    const expected = isTooMuchGas ? 'Expected each field in its shortest form and in range.' : undefined
    if (problems.some((problem) => problem !== expected)) t.fail(`${v.name}: ${problems}`)
    if (isTooMuchGas) tooMuchGas++
    count++
  }
  t.ok(tooMuchGas < count / 4)
  t.equal(count, 1067)
})

t.test('ethers: EIP-2930 and EIP-1559 transactions', { skip }, async (t) => {
  const refused = new Set<string>()
  let count = 0
  for (const v of vectors('typed-transactions')) {
    const problem = roundTrip(v.unsigned, v.signed, v.key)
    if (problem?.includes('priority fee')) {
      // No node takes these: EIP-1559 asserts that the priority fee is within the whole.
      t.ok(BigInt(v.tx.maxPriorityFeePerGas ?? 0) > BigInt(v.tx.maxFeePerGas ?? 0))
      refused.add(v.name)
    } else if (problem !== undefined) t.fail(`${v.name}: ${problem}`)
    count++
  }
  t.equal(count, 1792)
  t.ok(refused.size < count / 4, `${refused.size} with a priority fee above the whole fee`)
})

t.test('an access list longer than anybody reads is refused, in both spellings', async (t) => {
  const base = {
    type: 'eip1559',
    ...{ chainId: 8453n, nonce: 0n, gasLimit: 21_000n, maxFeePerGas: 2n, value: 0n },
    ...{ maxPriorityFeePerGas: 1n, to: Buffer.alloc(20, 7), data: new Uint8Array(0) },
  } as const
  const account = (keys: number) => ({
    address: Buffer.alloc(20, 1),
    storageKeys: Array.from({ length: keys }, () => Buffer.alloc(32, 2)),
  })
  const read = (accessList: ReturnType<typeof account>[]) => {
    const json = readJsonTransaction({
      ...{ chainId: 8453, nonce: 0, gas: 21_000, maxFeePerGas: 2, maxPriorityFeePerGas: 1 },
      to: hexOf(base.to),
      accessList: accessList.map(({ address, storageKeys }) => ({
        address: hexOf(address),
        storageKeys: storageKeys.map(hexOf),
      })),
    })
    const rlp = readTransaction(writeTransaction({ ...base, accessList }))
    return [rlp.ok || rlp.message, json.ok || json.message]
  }
  t.strictSame(read(Array.from({ length: 256 }, () => account(4))), [true, true])
  for (const long of [Array.from({ length: 257 }, () => account(0)), [account(1_000), account(25)]])
    for (const message of read(long)) t.match(message, /at most 256 accounts and 1024 storage keys/)
})

t.test('an RLP item has one spelling', async (t) => {
  const item = fc.letrec<{ item: RlpItem }>((tie) => ({
    item: fc.oneof(
      { maxDepth: 3 },
      fc.uint8Array({ maxLength: 300 }),
      fc.array(tie('item'), { maxLength: 6 }),
    ),
  })).item
  fc.assert(
    fc.property(item, (value) => {
      const bytes = writeRlp(value)
      const again = readRlp(bytes)
      return again !== undefined && Buffer.from(writeRlp(again)).equals(bytes)
    }),
  )
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 80 }), (bytes) => {
      const read = readRlp(bytes)
      return read === undefined || Buffer.from(writeRlp(read)).equals(bytes)
    }),
    { numRuns: 5_000 },
  )
  for (const bad of [
    '',
    '8100',
    '817f',
    'b80100',
    'b90001ff',
    'c100ff',
    'c180ff',
    'f800',
    '8200',
    'c28201',
  ]) {
    t.equal(readRlp(Buffer.from(bad, 'hex')), undefined, bad)
  }
  t.equal(readRlp(Buffer.from('c6c5c4c3c2c1c0', 'hex')), undefined, 'too deep')
})
