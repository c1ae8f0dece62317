import t from 'tap'
import type { Receipt } from '../../../../core/evm/transferProof.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { Means } from './keys.ts'
import { costOf } from './settlement.ts'
import { signTransaction } from './transaction.ts'

const options = { maxGas: 300_000, maxFeePerGasWei: 2_000n }
const { bytes } = signTransaction(
  {
    chainId: 1,
    nonce: 0,
    gas: 1_000,
    maxFeePerGas: 50n,
    maxPriorityFeePerGas: 1n,
    to: `0x${'11'.repeat(20)}`,
    data: '0x',
  },
  Buffer.alloc(32, 1),
)
const hex = (value: bigint | number) => `0x${value.toString(16)}`
const cost = (fees: Record<string, unknown>, of = bytes, payments = 1) =>
  costOf(fees as unknown as Receipt, payments, of, options)

t.test('a receipt’s fee is believed up to what was signed, and not beyond', async (t) => {
  t.equal(cost({ gasUsed: hex(1_000), effectiveGasPrice: hex(50) }), 50_000n)
  t.equal(cost({ gasUsed: hex(1_000), effectiveGasPrice: hex(51) }), undefined)
  t.equal(cost({ gasUsed: hex(1_000), effectiveGasPrice: hex(2n ** 255n) }), undefined)
  t.equal(cost({ gasUsed: hex(999), effectiveGasPrice: hex(50) }, bytes, 4), 12_488n, 'a share is rounded up')
})

t.test('where the bytes are forgotten, up to what one payment is signed for at most', async (t) => {
  t.equal(cost({ gasUsed: hex(300_000), effectiveGasPrice: hex(2_000) }, ''), 600_000_000n)
  t.equal(cost({ gasUsed: hex(300_000), effectiveGasPrice: hex(2_001) }, ''), undefined)
})

t.test(
  'what the bytes cost on the chain below is believed up to what the gas may cost at the highest price',
  async (t) => {
    const fees = { gasUsed: hex(100), effectiveGasPrice: hex(10) }
    t.equal(cost({ ...fees, l1Fee: hex(2_000_000) }), 2_001_000n)
    for (const l1Fee of [hex(2_000_001), hex(10n ** 18n), null, -1, 'x'])
      t.equal(cost({ ...fees, l1Fee }), undefined, String(l1Fee))
  },
)

t.test('the log says what of a balance is reserved, also when that is more than the balance', async (t) => {
  const said: unknown[] = []
  const log = { error: (_facts: object, text: string) => void said.push(text) }
  const caps = {
    maxFeePerGasWei: 2_000n,
    maxPriorityFeePerGasWei: 1n,
    maxGas: 1_000,
    network: 'eip155:1',
    log,
  }
  const account = { address: '0xKey', committedWei: 700n, inFlight: 1, isShared: false }
  const means = new Means(caps as unknown as Required<EvmSettlerOptions>, account)
  t.match(means.judge({ number: 1, timestamp: 0, baseFee: 2n, blockGas: 1n, balance: 400n }, 1), {
    ok: false,
  })
  t.strictSame(said, [
    'settlement stopped: the settling account 0xKey has 400 wei, its transactions in flight reserve 700 wei, and the next payment needs 5000 wei',
  ])
})
