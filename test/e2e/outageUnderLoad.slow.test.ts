import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { checkedLedger } from '../helpers/checkedLedger.ts'
import { skipOrFail } from '../helpers/redis.ts'
import { mountSmallDisk } from '../helpers/servers/mountSmallDisk.ts'
import { startPostgresServer, whyNoPostgresServer } from '../helpers/servers/startPostgresServer.ts'
import { type Bought, newBuyer, present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { eventually } from './helpers/eventually.ts'
import { startReferenceFacilitator } from './helpers/facilitator.ts'
import { type Product, startProduct } from './helpers/product.ts'

// What is away while calls go on, and comes back. PostgreSQL, Redis, nodes and processes are struck by test/soak.

const chains = await startChains(t)
const [evm] = chains.both
const CALL_EVERY_MS = 200
/** Calls under way at most: more would only wait for the processor. */
const MAX_OPEN = 16

interface Call {
  readonly target: string
  readonly payment: string
  readonly beganMs: number
  first: Bought | undefined
  last: Bought | undefined
}

/** Paid and free calls, one after the other however the ones before do, each paid one until its answer is final. */
async function startLoad({ addLink }: Product) {
  const [paid, free] = await Promise.all([addLink('paid'), addLink('free', '0')])
  const buyer = await newBuyer(chains, evm)
  const calls: Call[] = []
  const freeStatuses: number[] = []
  const running = new Set<Promise<void>>()
  let isOpen = true
  let maxOpen = MAX_OPEN
  let n = 0

  async function buy(): Promise<void> {
    const target = `${paid}?n=${n++}`
    const payment = await buyer.sign(target)
    const call: Call = { target, payment, beganMs: performance.now(), first: undefined, last: undefined }
    calls.push(call)
    for (;;) {
      call.last = await present(target, payment)
      call.first ??= call.last
      if (call.last.status !== 503) return
      await sleep(500)
    }
  }
  async function ask(): Promise<void> {
    freeStatuses.push((await fetch(`${free}?n=free`)).status)
  }
  const begin = (work: Promise<void>): void => {
    const noted = work.finally(() => running.delete(noted))
    running.add(noted)
  }
  const beating = (async () => {
    while (isOpen) {
      if (running.size < maxOpen) begin(buy())
      begin(ask())
      await sleep(CALL_EVERY_MS)
    }
  })()
  return {
    calls,
    freeStatuses,
    /** Connections that are open by now may stay open for long, and do not block new ones. */
    makeRoom() {
      maxOpen = running.size + MAX_OPEN
    },
    async end() {
      isOpen = false
      await beating
      await Promise.all(running)
    },
  }
}

/** What `/readyz` and the gauge of a part say. */
async function standing({ tollgate }: Product, part: 'database' | 'settler') {
  const [ready, metrics] = await Promise.all(
    ['/readyz', '/metrics'].map((path) => fetch(`${tollgate.adminUrl}${path}`)),
  )
  const text = await metrics!.text()
  const labels = `part="${part}",network="${part === 'settler' ? evm.network : ''}"`
  return { status: ready!.status, gauge: text.split(`tollgate_ready{${labels}} `)[1]?.[0] }
}

/** Strikes under load, and holds what everybody heard against the promise. */
async function bear(
  t: Test,
  product: Product,
  {
    part,
    code,
    strike,
    lift,
  }: {
    readonly part: 'database' | 'settler'
    readonly code: string
    strike(): void
    lift(): void
  },
): Promise<void> {
  const { api, payTo, tollgate } = product
  const load = await startLoad(product)
  await eventually(async () => load.calls.filter(({ last }) => last?.status === 200).length > 3 || undefined)
  t.strictSame(await standing(product, part), { status: 200, gauge: '1' })

  strike()
  load.makeRoom()
  await eventually(async () => {
    const { status, gauge } = await standing(product, part)
    return (status === 503 && gauge === '0') || undefined
  })
  const struckMs = performance.now()
  const freeBefore = load.freeStatuses.length
  // A server whose disk is full goes on with the few pages that it has laid out already: a call may be sold meanwhile.
  const refused = () =>
    load.calls.filter(
      ({ beganMs, first }) => beganMs > struckMs && first !== undefined && first.status !== 200,
    )
  await eventually(async () => refused().length > 5 || undefined, 60_000)
  const meanwhile = refused()
  const transfersMeanwhile = await evm.transfersTo(payTo(evm))
  for (const { first } of meanwhile)
    t.match(first, { status: 503, body: { error: { code, retryable: true } } })
  t.ok(load.freeStatuses.length > freeBefore, 'free links go on')

  lift()
  const liftedMs = performance.now()
  await eventually(async () => (await standing(product, part)).status === 200 || undefined)
  t.comment(`ready ${Math.round(performance.now() - liftedMs)} ms after the return`)
  await eventually(
    async () =>
      load.calls.some(({ beganMs, first }) => beganMs > liftedMs && first?.status === 200) || undefined,
  )
  t.comment(`sold ${Math.round(performance.now() - liftedMs)} ms after the return`)
  await load.end()

  t.strictSame(new Set(load.freeStatuses), new Set([200]))
  for (const { last } of load.calls) t.equal(last!.status, 200, last!.text)
  const ids = new Set(load.calls.map(({ last }) => last!.body._svc!.purchaseId))
  t.equal(ids.size, load.calls.length, 'each call has a purchase of its own')
  const charged = new Set(meanwhile.map(({ last }) => last!.receipt!.transaction))
  t.notOk(
    transfersMeanwhile.some((transaction) => charged.has(transaction)),
    'nothing of what was refused was charged',
  )
  if (part === 'settler')
    for (const { target } of load.calls)
      t.equal(api.calls.filter((call) => target.endsWith(call)).length, 1, 'the seller worked once')
  await eventually(async () => {
    const open = await tollgate.stack.store.ledger.list({
      states: ['claimed', 'settling', 'pending'],
      limit: 1,
    })
    return open.length === 0 || undefined
  })
  const ledger = await checkedLedger(tollgate.stack.store.purchases)
  t.match(ledger, { purchases: load.calls.length, unresolvedPayments: 0, refundDue: 0 })
  t.match(ledger, { broken: { length: 0 }, unbalanced: { length: 0 } })
  t.strictSame(
    new Set(await evm.transfersTo(payTo(evm))),
    new Set(ledger.transactions.map(({ transaction }) => transaction)),
  )
}

for (const mood of ['away', 'failing'] as const)
  t.test(`a remote facilitator that is ${mood} under load`, async (t) => {
    const facilitator = await startReferenceFacilitator(t, chains)
    const remote = { facilitator: { url: facilitator.url } }
    const product = await startProduct(t, { evm: remote }, chains)
    await bear(t, product, {
      ...{ part: 'settler', code: 'settlement_unavailable' },
      strike: () => facilitator.be(mood),
      lift: () => facilitator.be('well'),
    })
  })

t.test('the disk of the file, full under load', async (t) => {
  const disk = mountSmallDisk(t, '32m')
  if (disk === undefined) return
  const ballast = join(disk, 'ballast')
  const product = await startProduct(
    t,
    { store: 'sqlite', sections: { storage: { path: join(disk, 'tollgate.db') } } },
    chains,
  )
  await bear(t, product, {
    part: 'database',
    code: 'store_unavailable',
    strike: () => fill(ballast),
    lift: () => rmSync(ballast),
  })
})

t.test('the disk of PostgreSQL, full under load', async (t) => {
  const why = whyNoPostgresServer()
  if (why !== undefined) return skipOrFail(t, why)
  const disk = mountSmallDisk(t, '192m')
  if (disk === undefined) return
  const ballast = join(disk, 'ballast')
  const dir = join(disk, 'postgres')
  mkdirSync(dir)
  const server = await startPostgresServer(t, { dir })
  const product = await startProduct(
    t,
    { store: 'sqlite', sections: { storage: { postgres: { url: server.url } } } },
    chains,
  )
  await bear(t, product, {
    part: 'database',
    code: 'store_unavailable',
    strike: () => fill(ballast),
    lift: () => rmSync(ballast),
  })
})

/** Writes until there is no room for one byte more. */
function fill(file: string): void {
  const to = openSync(file, 'w')
  const block = Buffer.alloc(4_096)
  try {
    for (;;) writeSync(to, block)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    closeSync(to)
  }
}
