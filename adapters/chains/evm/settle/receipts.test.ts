import t from 'tap'
import { silentLog as log } from '../../../../core/ports/log.ts'
import type { Rpc, RpcCall } from '../../../../core/rpc/rpc.ts'
import { createReceiptWatch } from './receipts.ts'

const hash = (n: number) => `0x${String(n).padStart(64, '0')}`

/** A node that counts what it is asked, and knows the receipts that the test has put in. */
function countingNode() {
  const mined = new Map<string, number>()
  const requests: string[][] = []
  let height = 10
  const answer = ({ method, params }: RpcCall) => {
    if (method === 'eth_blockNumber') return `0x${height.toString(16)}`
    const block = mined.get(params[0] as string)
    if (block === undefined) return null
    return { transactionHash: params[0], blockNumber: `0x${block.toString(16)}`, status: '0x1', logs: [] }
  }
  const rpc: Rpc = {
    async call(method, ...params) {
      const [only] = await rpc.batch([{ method, params }])
      return only!.ok ? only!.result : undefined
    },
    callWithin: (_limitMs, method, ...params) => rpc.call(method, ...params),
    async batch(calls) {
      requests.push(calls.map(({ method }) => method))
      return calls.map((call) => ({ ok: true, result: answer(call) }))
    },
    many: (calls) => rpc.batch(calls),
  }
  return {
    rpc,
    requests,
    mine: (of: string) => void mined.set(of, height),
    grow: (blocks: number) => {
      height += blocks
    },
  }
}

for (const confirmations of [1, 3]) {
  t.test(`who has stopped waiting costs no request, with ${confirmations} confirmations`, async (t) => {
    const { rpc, requests } = countingNode()
    const watch = createReceiptWatch({ rpc, firstPollMs: 5, pollMs: 40, confirmations, log })
    t.teardown(() => watch.close())
    await Promise.all(Array.from({ length: 50 }, (_, n) => watch.wait(hash(n), 20)))
    const before = requests.length
    // Meanwhile somebody waits elsewhere, long enough for every look that was planned.
    const elsewhere = createReceiptWatch({
      rpc: countingNode().rpc,
      firstPollMs: 5,
      pollMs: 40,
      confirmations,
      log,
    })
    t.teardown(() => elsewhere.close())
    await elsewhere.wait(hash(99), 150)
    t.equal(requests.length, before)
    t.ok(requests.every((methods) => methods.includes('eth_getTransactionReceipt')))
  })
}

t.test('fifty that wait share one request a round', async (t) => {
  const { rpc, requests } = countingNode()
  const watch = createReceiptWatch({ rpc, firstPollMs: 5, pollMs: 40, confirmations: 1, log })
  t.teardown(() => watch.close())
  await Promise.all(Array.from({ length: 50 }, (_, n) => watch.wait(hash(n), 100)))
  t.ok(requests.length <= 20, `${requests.length} requests for 50 waits of 100 ms`)
  t.ok(requests.flat().length >= 50, 'and everybody was asked about')
})
