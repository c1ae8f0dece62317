import { existsSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { secp256k1 } from '@noble/curves/secp256k1'
import fc from 'fast-check'
import { serialize as serializeEip1559 } from 'ox/TxEnvelopeEip1559'
import t from 'tap'
import { keccak256 } from '../../../core/evm/hex.ts'
import { readJsonTransaction } from './jsonTransaction.ts'
import { type EvmTransaction, readTransaction, writeTransaction } from './transaction.ts'

const folder = new URL('../../../../shared/vectors/', import.meta.url)
const skip = !existsSync(folder) && 'no vectors'
const vectors = (name: string) =>
  JSON.parse(gunzipSync(readFileSync(new URL(`ethers_testcases_${name}.json.gz`, folder))).toString())
const bytesOf = (hex: string) => Buffer.from(hex.slice(2), 'hex')
const hexOf = (bytes: Uint8Array): `0x${string}` => `0x${Buffer.from(bytes).toString('hex')}`
/** The written bytes, or the reason why not. */
const written = (...call: Parameters<typeof writeTransaction>): string => {
  const result = writeTransaction(...call)
  return result.ok ? result.hex : result.message
}

/** Reads, writes, signs and writes again: both must equal what ethers wrote. */
function roundTrip(unsigned: string, signed: string, privateKey: string): string | undefined {
  const bytes = bytesOf(unsigned)
  const read = readTransaction(bytes)
  if (!read.ok) return read.message
  if (written(read.transaction) !== unsigned) return 'written differently'
  const { r, s, recovery } = secp256k1.sign(keccak256(bytes), bytesOf(privateKey), { lowS: true })
  if (written(read.transaction, { r, s, yParity: recovery }) !== signed) return 'signed differently'
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
    // No client accepts a gas limit beyond 64 bits; ethers writes one.
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
  let [count, withoutChain] = [0, 0]
  for (const v of vectors('typed-transactions')) {
    const problem = roundTrip(v.unsigned, v.signed, v.key)
    // A transaction of these types without a chain id is valid on no chain.
    if (BigInt(v.tx.chainId ?? 0) === 0n) {
      t.match(problem, /in range/)
      withoutChain++
      continue
    }
    if (problem?.includes('priority fee')) {
      // No node accepts these: EIP-1559 requires the priority fee to be within the maximum fee.
      t.ok(BigInt(v.tx.maxPriorityFeePerGas ?? 0) > BigInt(v.tx.maxFeePerGas ?? 0))
      refused.add(v.name)
    } else if (problem !== undefined) t.fail(`${v.name}: ${problem}`)
    count++
  }
  t.equal(count + withoutChain, 1792)
  t.ok(refused.size < count / 4, `${refused.size} with a priority fee above the whole fee`)
})

const base = {
  type: 'eip1559',
  chainId: 8453,
  nonce: 0n,
  gas: 21_000n,
  maxFeePerGas: 2n,
  maxPriorityFeePerGas: 1n,
  to: hexOf(Buffer.alloc(20, 7)),
} as const satisfies EvmTransaction

t.test('an access list longer than anyone reads is refused, in both spellings', async (t) => {
  const account = (keys: number) => ({
    address: hexOf(Buffer.alloc(20, 1)),
    storageKeys: Array.from({ length: keys }, () => hexOf(Buffer.alloc(32, 2))),
  })
  const read = (accessList: ReturnType<typeof account>[]) => {
    const json = readJsonTransaction({
      chainId: 8453,
      nonce: 0,
      gas: 21_000,
      maxFeePerGas: 2,
      maxPriorityFeePerGas: 1,
      to: base.to,
      accessList,
    })
    const rlp = readTransaction(bytesOf(serializeEip1559({ ...base, accessList })))
    return [rlp.ok || rlp.message, json.ok ? written(json.transaction).slice(0, 4) : json.message]
  }
  t.strictSame(read(Array.from({ length: 256 }, () => account(4))), [true, '0x02'])
  for (const long of [Array.from({ length: 257 }, () => account(0)), [account(1_000), account(25)]])
    t.strictSame(read(long)[0], 'Expected an access list of at most 256 accounts and 1024 storage keys.')
  t.match(written({ ...base, accessList: Array.from({ length: 257 }, () => account(0)) }), /at most 256/)
})

t.test('a transaction has one spelling', async (t) => {
  const bytes = Buffer.from(bytesOf(written(base)))
  t.equal(readTransaction(bytes).ok, true)
  // A changed, added or omitted byte either decodes to what encodes to the same bytes, or is refused.
  fc.assert(
    fc.property(fc.nat(bytes.length), fc.nat(3), fc.uint8Array({ maxLength: 3 }), (at, cut, put) => {
      const changed = Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + cut)])
      const read = readTransaction(changed)
      return !read.ok || written(read.transaction) === hexOf(changed)
    }),
    { numRuns: 5_000 },
  )
  const zero = Buffer.from(bytesOf(written({ ...base, nonce: 1n })))
  const nonceAt = zero.indexOf(Buffer.from('82210501', 'hex')) + 3
  t.equal(zero[nonceAt], 1)
  zero[nonceAt] = 0
  t.match(readTransaction(zero), { ok: false, message: /shortest form/ }, 'a zero that is written as a byte')
  // Each of these lists claims to contain the rest.
  const deep = Buffer.concat(Array.from({ length: 60_000 }, () => Buffer.from('fa03ffff', 'hex')))
  t.equal(readTransaction(deep).ok, false, 'lists nested deeper than the stack')
})

t.test('what is out of range is refused, in both directions', async (t) => {
  const wrong: Partial<typeof base & { value: bigint }>[] = [
    { nonce: (2n ** 64n) as never },
    { gas: (2n ** 64n) as never },
    { value: 2n ** 256n },
    { maxFeePerGas: (2n ** 256n) as never },
    { maxFeePerGas: 0n as never },
    { chainId: (2 ** 53) as never },
    { chainId: 0 as never },
    { to: '0x07' as never },
  ]
  for (const change of wrong) {
    const tried = { ...base, ...change } as EvmTransaction
    t.match(written(tried), /^Expected /, JSON.stringify(Object.keys(change)))
  }
  const legacy = { type: 'legacy', chainId: 2 ** 52, gas: 21_000n, to: base.to } as const
  t.match(written(legacy), /^Expected /, "a chain whose number does not fit into a signature's v")
})
