import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createSqliteChanges } from '../../../adapters/sqlite/changes.ts'
import { openSqlite, type SqliteStore } from '../../../adapters/sqlite/openSqlite.ts'
import { entriesOfRefund, entriesOfSale } from '../../../core/domain/ledger.ts'
import type { PaymentState } from '../../../core/domain/payment.ts'
import type { Change } from '../../../core/ports/changes.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { sampleClaim, sampleKey, sampleLink, samplePurchase, sampleStore } from '../samples.ts'

const open = (path: string) => openSqlite({ path, clock: systemClock, log: silentLog })

function start(t: Test, name: string, ...args: string[]): ChildProcess {
  const program = fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url))
  const child = fork(program, args, { execArgv: [], stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

t.test(
  'one payment, a hundred times at once, over two processes: one wins, and all know which',
  async (t) => {
    const path = join(t.testdir(), 'tollgate.db')
    for (const round of ['1', '2', '3']) {
      // The first round also makes the file and its tables, in both processes at once.
      const children = ['a', 'b'].map((name) => start(t, 'claimant', `${path}${round}`, name, '50'))
      const exits = children.map((child) => once(child, 'exit'))
      await Promise.all(children.map((child) => once(child, 'message')))
      for (const child of children) child.send('go')
      const answers = (await Promise.all(children.map((child) => once(child, 'message')))).flatMap(
        ([sent]) => sent,
      ) as {
        won: boolean
        purchaseId: string
      }[]
      await Promise.all(exits)
      const winners = answers.filter((a) => a.won)
      t.equal(answers.length, 100)
      t.equal(winners.length, 1)
      t.ok(answers.every((a) => a.purchaseId === winners[0]?.purchaseId))
    }
  },
)

t.test(
  'a process that is killed loses nothing that was acknowledged, and leaves nothing half done',
  async (t) => {
    const path = join(t.testdir(), 'tollgate.db')
    const said = new Map<string, PaymentState>()
    for (let round = 0; round < 6; round++) {
      const child = start(t, 'seller', path, `round${round}`)
      let lines = 0
      const killAfter = 40 + round * 97
      for await (const line of createInterface({ input: child.stdout! })) {
        const [state, key] = line.split(' ') as [PaymentState, string]
        said.set(key, state)
        if (++lines === killAfter) child.kill('SIGKILL')
      }
      t.ok(lines >= killAfter)
    }

    const store = await open(path)
    t.teardown(() => store.close())
    const order: PaymentState[] = ['claimed', 'verified', 'settling', 'settled']
    const lost: string[] = []
    for (const [key, state] of said) {
      const record = await store.payments.find(key)
      const isThere = record !== undefined && order.indexOf(record.state) >= order.indexOf(state)
      const hasAnswer = order.indexOf(state) < 2 || record?.answer?.body.length === 5_000
      if (!isThere || !hasAnswer) lost.push(`${state} ${key}, found ${record?.state}`)
    }
    t.strictSame(lost, [])
    const findings = await store.purchases.ledgerCheck()
    t.match(findings, { broken: [], unbalanced: [], chargedPayments: findings.purchases })
    t.ok(findings.purchases >= [...said.values()].filter((state) => state === 'settled').length)
    for (const { purchaseId } of findings.transactions) {
      if ((await store.purchases.ledger(purchaseId)).length !== 4) t.fail(`half a sale: ${purchaseId}`)
    }
  },
)

t.test(
  'several that open a new file at once agree on its tables, and a restart finds nothing to do',
  async (t) => {
    const path = join(t.testdir(), 'tollgate.db')
    const stores = await Promise.all(Array.from({ length: 4 }, () => open(path)))
    await Promise.all(stores.map((store, i) => store.payments.heartbeat(`owner-${i}`)))
    await Promise.all(stores.map((store) => store.close()))
    const applied: object[] = []
    const log = { ...silentLog, info: (fields: object) => void applied.push(fields) }
    const again = await openSqlite({ path, clock: systemClock, log })
    t.strictSame(applied, [])
    t.strictSame(await again.health(), [])
    await again.close()
  },
)

/** The poll does not keep a process alive; these tests wait for it. */
function stayAlive(t: Test): void {
  const timer = setInterval(() => {}, 60_000)
  t.teardown(() => clearInterval(timer))
}

t.test('a change made by a neighbour reaches the caches of this process', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  stayAlive(t)
  const [here, there] = await Promise.all([open(path), open(path)])
  await there.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  const changes = createSqliteChanges(here, { log: silentLog, pollMs: 5 })
  t.teardown(async () => {
    await changes.close()
    await Promise.all([here.close(), there.close()])
  })
  const heard: Change[] = []
  const waiting: { count: number; resolve: () => void }[] = []
  changes.subscribe((change) => {
    heard.push(change)
    for (const one of waiting) if (heard.length >= one.count) one.resolve()
  })
  const hear = async (count: number) => {
    await new Promise<void>((resolve) => {
      waiting.push({ count, resolve })
      if (heard.length >= count) resolve()
    })
    return heard.splice(0)
  }
  const link = (slug: string) => ({ kind: 'link', username: 'ann', slug })

  await there.links.create(sampleLink('l1', 's1', { slug: 'a' }))
  t.strictSame(await hear(1), [link('a')])
  await there.links.update('l1', { slug: 'b' }, systemClock.now())
  t.strictSame(await hear(2), [link('b'), link('a')])
  await there.links.update('l1', { isStealth: true, privateSlug: 'p' }, systemClock.now())
  t.strictSame(await hear(2), [link('p'), link('b')])
  await there.links.deactivate('l1', systemClock.now())
  t.strictSame(await hear(1), [link('p')])
  await there.stores.update('s1', { username: 'anna' }, systemClock.now())
  t.strictSame(await hear(2), [
    { kind: 'store', username: 'anna' },
    { kind: 'store', username: 'ann' },
  ])
})

t.test('whoever missed changes that were pruned is told that every store changed', async (t) => {
  stayAlive(t)
  const store = await open(':memory:')
  await store.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  const changes = createSqliteChanges(store, { log: silentLog, pollMs: 5 })
  t.teardown(async () => {
    await changes.close()
    await store.close()
  })
  const told = new Promise<Change>((resolve) => changes.subscribe(resolve))
  await store.database.writer.write('runAll', [
    { sql: 'DELETE FROM changes', parameters: [] },
    { sql: "INSERT INTO changes (id, kind, username) VALUES (9000, 'store', 'zoe')", parameters: [] },
  ])
  t.strictSame(await told, { kind: 'store', username: 'ann' })
})

t.test('of two stores on one file that refund by one transaction at once, one does', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const stores = [await open(path), await open(path)] as const
  t.teardown(() => Promise.all(stores.map((store) => store.close())))
  for (let round = 0; round < 20; round++) {
    const sold = await Promise.all([0, 1].map((i) => sellOne(stores[0], `r${round}k${i}`)))
    const refund = { transaction: `0xb${round}`, paymentKeys: [] }
    const results = await Promise.all(
      stores.map(({ payments }, i) =>
        payments.recordRefund(sold[i]!.paymentKey, refund, entriesOfRefund(sold[i]!)),
      ),
    )
    t.strictSame(results.toSorted(), ['refunded', 'transaction_used'])
  }
  t.match(await stores[1].purchases.ledgerCheck(), { purchases: 40, broken: [], unbalanced: [] })
})

async function sellOne({ payments }: SqliteStore, key: string) {
  const claim = sampleClaim(key)
  const purchase = samplePurchase(claim, `0x${key}`)
  await payments.claim(claim)
  const attempt = { settler: 'evm', bytes: '0x', transaction: purchase.txHash, sequence: null }
  await payments.beginSettlement(key, claim.owner, attempt, null)
  await payments.settle(key, claim.owner, purchase.txHash, purchase, entriesOfSale(purchase))
  return purchase
}
