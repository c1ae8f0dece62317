import t from 'tap'
import { silentLog as log } from '../../../../core/ports/log.ts'
import type { Rpc, RpcCall } from '../../../../core/rpc/rpc.ts'
import { PollPace, ReceiptWatch } from './receipts.ts'

const hash = (n: number) => `0x${String(n).padStart(64, '0')}`

/** A node that counts its requests and has the receipts that the test adds. */
function countingNode() {
  const mined = new Map<string, number>()
  const requests: string[][] = []
  let height = 10
  const respond = ({ method, params }: RpcCall) => {
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
      return calls.map((call) => ({ ok: true, result: respond(call) }))
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
    const watch = new ReceiptWatch({ rpc, firstPollMs: 5, pollMs: 40, confirmations, log })
    t.teardown(() => watch.close())
    await Promise.all(Array.from({ length: 50 }, (_, n) => watch.wait(hash(n), 20)))
    const before = requests.length
    // Meanwhile another wait elsewhere outlasts every planned poll.
    const elsewhere = new ReceiptWatch({
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
  const watch = new ReceiptWatch({ rpc, firstPollMs: 5, pollMs: 40, confirmations: 1, log })
  t.teardown(() => watch.close())
  await Promise.all(Array.from({ length: 50 }, (_, n) => watch.wait(hash(n), 100)))
  t.ok(requests.length <= 20, `${requests.length} requests for 50 waits of 100 ms`)
  t.ok(requests.flat().length >= 50, 'and everybody was asked about')
})

/** The ages at which one transaction is polled for until it is found. */
function pollsUntil(pace: PollPace, landsAtMs: number): number[] {
  const ages: number[] = []
  let ageMs = 0
  do {
    ageMs += pace.gapMs(ageMs)
    ages.push(ageMs)
  } while (ageMs < landsAtMs)
  return ages
}

/** Polls for a transaction and records what a caller can know, which is that it landed between the last two polls. */
function land(pace: PollPace, landsAtMs: number): number[] {
  const ages = pollsUntil(pace, landsAtMs)
  pace.note(((ages.at(-2) ?? 0) + ages.at(-1)!) / 2)
  return ages
}

const options = { firstMs: 20, maxMs: 1_000 }

t.test('with nothing known it looks early, then half as often each time, then once a second', async (t) => {
  t.same(
    pollsUntil(new PollPace(options.firstMs, options.maxMs), 5_000),
    [20, 40, 80, 160, 320, 640, 1_280, 2_280, 3_280, 4_280, 5_280],
  )
})

for (const tookMs of [45, 400, 900, 2_500, 13_000]) {
  t.test(
    `a chain that takes ${tookMs} ms is found within an eighth of it, by a bounded number of looks`,
    async (t) => {
      const pace = new PollPace(options.firstMs, options.maxMs)
      for (let i = 0; i < 30; i++) land(pace, tookMs)
      const ages = land(pace, tookMs)
      t.ok(
        ages.at(-1)! - tookMs <= Math.max(options.firstMs, Math.min(tookMs / 7, options.maxMs)),
        String(ages),
      )
      t.ok(ages.length <= 8 + tookMs / options.maxMs, String(ages))
    },
  )
}

t.test('it follows a chain that becomes quicker or slower', async (t) => {
  const pace = new PollPace(options.firstMs, options.maxMs)
  for (const tookMs of [1_000, 60, 3_000]) {
    for (let i = 0; i < 60; i++) land(pace, tookMs)
    t.ok(Math.abs(pace.typicalMs! - tookMs) <= Math.max(20, tookMs / 4), `${tookMs}: ${pace.typicalMs}`)
  }
})

t.test('transactions that never land, now and then, change nothing for the others', async (t) => {
  const pace = new PollPace(options.firstMs, options.maxMs)
  for (let i = 0; i < 40; i++) {
    land(pace, 400)
    if (i % 3 === 0) pace.note(30_000)
  }
  t.ok(pace.typicalMs! < 500, String(pace.typicalMs))
})

t.test('a chain on which nothing lands any more is asked once a second, by newcomers too', async (t) => {
  const pace = new PollPace(options.firstMs, options.maxMs)
  for (let i = 0; i < 9; i++) land(pace, 60)
  for (let i = 0; i < 9; i++) pace.note(12_000)
  t.equal(pace.gapMs(0), options.maxMs)
})
