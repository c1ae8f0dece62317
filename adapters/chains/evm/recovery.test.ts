import t from 'tap'
import { silentLog as log } from '../../../core/ports/log.ts'
import { createHeadCache } from './head.ts'
import { createReceiptWatch } from './receipts.ts'
import { createRecovery } from './recovery.ts'
import type { Rpc, RpcAnswer } from './rpc.ts'
import { network, recordOf, seller, usdc } from './settler.fixture.ts'

const transaction = `0x${'ab'.repeat(32)}`
const identity = {
  key: 'key',
  network,
  asset: usdc.address,
  payer: `0x${'11'.repeat(20)}`,
  nonce: `0x${'22'.repeat(32)}`,
  payTo: seller,
  amountAtomic: 10_000n,
  validBeforeMs: 3_000_000,
} as const
const attempt = { settler: 'evm', bytes: '0x02', transaction, sequence: '0' }
const records = [
  { ...recordOf(identity, attempt), claimedAtMs: 1_000_000 },
  { ...recordOf({ ...identity, key: 'other' }, attempt), claimedAtMs: 1_000_000 },
] as const

/** A payment whose transaction waits in a node's pool, on a clock of the test's own. */
function waitingInThePool() {
  let nowMs = 1_000_000
  let isUsed = false
  let isAway = false
  let asked: string[] = []
  const answers: Record<string, () => unknown> = {
    eth_getTransactionReceipt: () => null,
    eth_getBlockByNumber: () => ({ number: '0x10', timestamp: '0x3e8', baseFeePerGas: '0x1' }),
    eth_getBalance: () => '0x1',
    eth_call: () => `0x${(isUsed ? '1' : '0').padStart(64, '0')}`,
    eth_getLogs: () => [],
    eth_sendRawTransaction: () => transaction,
  }
  const rpc: Rpc = {
    async call(method) {
      if (isAway) throw new Error('away')
      asked.push(method)
      return answers[method]!()
    },
    callWithin: (_limitMs, method) => rpc.call(method),
    batch: (calls) =>
      Promise.all(
        calls.map(async ({ method }): Promise<RpcAnswer> => ({ ok: true, result: await rpc.call(method) })),
      ),
  }
  const clock = { now: () => nowMs }
  const options = {
    ...{ clock, log, confirmations: 1, expiryMarginSeconds: 30 },
    ...{ receiptTimeoutMs: 1, pollMs: 1, lookAgainMs: 15_000 },
  } as const
  const receipts = createReceiptWatch({ rpc, firstPollMs: 1, pollMs: 1, confirmations: 1, log })
  const heads = createHeadCache(rpc, seller, clock, 0)
  const { recover } = createRecovery({
    options: { ...options, network: 'eip155:84532' },
    rpc,
    account: undefined,
    heads,
    receipts,
  })
  return {
    /** What one look asks of the node. */
    async look(record: (typeof records)[number] = records[0]) {
      asked = []
      t.match(await recover(record), { status: 'pending', transaction })
      return asked
    },
    step: (ms: number) => void (nowMs += ms),
    use: () => void (isUsed = true),
    away: (is: boolean) => void (isAway = is),
  }
}

t.test('an open payment is looked up whole every 15 s; in between only its nonce is read', async (t) => {
  const { look, step } = waitingInThePool()
  let whole = 0
  for (let ms = 0; ms < 60_000; ms += 2_000) {
    const asked = await look()
    if (asked.includes('eth_getTransactionReceipt')) whole++
    else t.same(asked, ['eth_call'])
    step(2_000)
  }
  t.equal(whole, 4)
})

t.test('each payment has its own turn', async (t) => {
  const { look } = waitingInThePool()
  await look()
  t.ok((await look(records[1])).includes('eth_sendRawTransaction'))
  t.same(await look(records[1]), ['eth_call'])
})

t.test('once its nonce is used it is looked up at once', async (t) => {
  const { look, use } = waitingInThePool()
  await look()
  use()
  t.ok((await look()).includes('eth_getLogs'))
})

t.test('a clock that is set forward or back delays no look', async (t) => {
  for (const ms of [600_000, -600_000]) {
    const { look, step } = waitingInThePool()
    await look()
    step(ms)
    t.ok((await look()).includes('eth_getTransactionReceipt'), `${ms} ms`)
  }
})

t.test('a look that failed is no look', async (t) => {
  const { look, away } = waitingInThePool()
  away(true)
  t.same(await look(), [])
  away(false)
  t.ok((await look()).includes('eth_sendRawTransaction'))
})
