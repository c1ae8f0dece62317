import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { entriesOfRefund } from '../../../core/domain/ledger.ts'
import type { PaymentState } from '../../../core/domain/payment.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { Change } from '../../../core/ports/store/changes.ts'
import type { Lease } from '../../../core/ports/store/leases.ts'
import { checkedLedger } from '../../helpers/checkedLedger.ts'
import { change, keyOf, sampleKey, sampleLink, sampleStore, sell } from '../samples.ts'

const open = (path: string, pollMs?: number) =>
  openSqlite({ path, clock: systemClock, log: silentLog, ...(pollMs !== undefined && { pollMs }) })

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
      const responses = (await Promise.all(children.map((child) => once(child, 'message')))).flatMap(
        ([sent]) => sent,
      ) as {
        won: boolean
        purchaseId: string
      }[]
      await Promise.all(exits)
      const winners = responses.filter((a) => a.won)
      t.equal(responses.length, 100)
      t.equal(winners.length, 1)
      t.ok(responses.every((a) => a.purchaseId === winners[0]?.purchaseId))
    }
  },
)

t.test(
  'a process that is killed loses nothing that was acknowledged, and leaves nothing half done',
  async (t) => {
    const path = join(t.testdir(), 'tollgate.db')
    const states = new Map<string, PaymentState>()
    for (let round = 0; round < 6; round++) {
      const child = start(t, 'seller', path, `round${round}`)
      let lines = 0
      const killAfter = 40 + round * 97
      for await (const line of createInterface({ input: child.stdout! })) {
        const [state, key] = line.split(' ') as [PaymentState, string]
        states.set(key, state)
        if (++lines === killAfter) child.kill('SIGKILL')
      }
      t.ok(lines >= killAfter)
    }

    const store = await open(path)
    t.teardown(() => store.close())
    const order: PaymentState[] = ['claimed', 'settling', 'settled']
    const lost: string[] = []
    for (const [name, state] of states) {
      const record = await store.ledger.find(keyOf(name))
      const isThere = record !== undefined && order.indexOf(record.state) >= order.indexOf(state)
      const response = record && (await store.ledger.responseOf(record.row))
      const hasResponse = order.indexOf(state) < 1 || response?.body.length === 5_000
      if (!isThere || !hasResponse) lost.push(`${state} ${name}, found ${record?.state}`)
    }
    t.strictSame(lost, [])
    const findings = await checkedLedger(store.purchases)
    t.match(findings, {
      broken: { length: 0 },
      unbalanced: { length: 0 },
      chargedPayments: findings.purchases,
    })
    t.ok(findings.purchases >= [...states.values()].filter((state) => state === 'settled').length)
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
    await Promise.all(stores.map((store, i) => store.leases.take(`process:${i}`, 1_000)))
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
  const [here, there] = await Promise.all([open(path, 5), open(path)])
  const { changes } = here
  t.teardown(() => Promise.all([here.close(), there.close()]))
  const received: Change[] = []
  const waiting: { count: number; resolve: () => void }[] = []
  changes.subscribe((change) => {
    received.push(change)
    for (const one of waiting) if (received.length >= one.count) one.resolve()
  })
  const hear = async (count: number) => {
    await new Promise<void>((resolve) => {
      waiting.push({ count, resolve })
      if (received.length >= count) resolve()
    })
    return received.splice(0)
  }
  const link = (slug: string) => ({ kind: 'link', username: 'ann', slug })

  await there.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  t.strictSame(await hear(1), [{ kind: 'store', username: 'ann' }])
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
  const store = await open(':memory:', 5)
  t.teardown(() => store.close())
  const received: string[] = []
  const until = (length: number) =>
    new Promise<void>((resolve) => {
      const look = () => received.length >= length && resolve()
      store.changes.subscribe(look)
      look()
    })
  // Before there is anything to hear: a look may come between any two of these lines.
  store.changes.subscribe(({ username }) => void received.push(username))
  await store.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  await until(1)
  await store.database.writer.write('runAll', [
    { sql: 'DELETE FROM changes', parameters: [] },
    { sql: "INSERT INTO changes (id, kind, username) VALUES (9000, 'store', 'zoe')", parameters: [] },
  ])
  await until(3)
  t.strictSame(received, ['ann', 'ann', 'zoe'])
})

t.test('many changes at once are heard in their order, each once, though a listener fails', async (t) => {
  stayAlive(t)
  const store = await open(':memory:', 5)
  t.teardown(() => store.close())
  const received: string[] = []
  const { promise: all, resolve } = Promise.withResolvers<void>()
  store.changes.subscribe(({ username }) => {
    if (received.push(username) === 1_000) resolve()
  })
  store.changes.subscribe(({ username }) => {
    if (username === 'u300') throw new Error('this one can not take it')
  })
  const names = Array.from({ length: 1_000 }, (_, i) => `u${i}`)
  await store.database.writer.write('runAll', [
    {
      sql: "INSERT INTO changes (kind, username) SELECT 'store', value FROM json_each(?)",
      parameters: [JSON.stringify(names)],
    },
  ])
  await all
  t.strictSame(received, names)
})

t.test('of two stores on one file that refund by one transaction at once, one does', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const stores = [await open(path), await open(path)] as const
  t.teardown(() => Promise.all(stores.map((store) => store.close())))
  for (let round = 0; round < 20; round++) {
    const sold = await Promise.all([0, 1].map((i) => sell(stores[0], `r${round}k${i}`, `0xa${round}${i}`)))
    const results = await Promise.all(
      stores.map(({ ledger }, i) => {
        const { claim, row, purchase } = sold[i]!
        return ledger.apply(
          change(claim, row, 'settled', 'refunded', {
            purchaseStatus: 'refunded',
            entries: entriesOfRefund(purchase),
            refund: { network: purchase.network, transaction: `0xb${round}`, paymentKeys: [] },
            durability: 'flushed',
          }),
        )
      }),
    )
    t.strictSame(results.toSorted(), [false, true])
  }
  t.match(await stores[1].purchases.ledgerCheck(), {
    purchases: 40,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

/** Asks again until there is something: another process's lease ends by the machine's time. */
async function patiently<T>(ask: () => Promise<T | undefined | 0>): Promise<T> {
  for (;;) {
    const got = await ask()
    if (got !== undefined && got !== 0) return got
    await setTimeout(10)
  }
}

const errorTextOf = async (child: ChildProcess): Promise<unknown> => (await once(child, 'message'))[0]

t.test('what a killed process was at is taken over by one other, as soon as its lease is over', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const stores = [await open(path), await open(path)] as const
  t.teardown(() => Promise.all(stores.map((store) => store.close())))
  const child = start(t, 'holder', path, 'process:child', 'k1', '1500')
  t.match(await errorTextOf(child), { won: true })
  const mine = (await Promise.all(stores.map(({ leases }, i) => leases.take(`process:${i}`, 60_000)))) as [
    Lease,
    Lease,
  ]
  t.equal(await stores[0].ledger.adopt(mine[0], ['claimed'], 10), 0, 'it lives')
  child.kill('SIGKILL')
  await once(child, 'exit')
  const counts = await patiently(async () => {
    const both = await Promise.all(stores.map(({ ledger }, i) => ledger.adopt(mine[i]!, ['claimed'], 10)))
    return both.some(Boolean) ? both : 0
  })
  t.equal(counts[0]! + counts[1]!, 1)
  const record = await stores[1].ledger.find(keyOf('k1'))
  t.equal(record?.lease, mine[counts[0] === 1 ? 0 : 1].id)
  t.match(await stores[1].ledger.due({ states: ['claimed'], limit: 10 }), [{ row: record!.row }])
})

t.test('a process that was frozen while another took over wakes up and can write nothing', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const store = await open(path)
  t.teardown(() => store.close())
  const child = start(t, 'holder', path, 'process:child', 'k1', '1500')
  const rival = start(t, 'holder', path, 'recovery', 'k2', '1500')
  await Promise.all([errorTextOf(child), errorTextOf(rival)])
  for (const one of [child, rival]) {
    one.send('go')
    t.match(await errorTextOf(one), { wrote: true, renewed: true })
    one.kill('SIGSTOP')
  }
  const mine = (await store.leases.take('process:here', 60_000))!
  let adopted = 0
  while (adopted < 2) adopted += await patiently(() => store.ledger.adopt(mine, ['settling'], 10))
  const recovery = await patiently(() => store.leases.take('recovery', 60_000))
  t.ok(recovery.id > mine.id)
  for (const one of [child, rival]) {
    one.send('go')
    one.kill('SIGCONT')
    const renewed = one === child
    t.match(await errorTextOf(one), { wrote: false, renewed }, 'a name that nobody took is still its own')
  }
  t.match(await store.ledger.find(keyOf('k1')), { lease: mine.id })
})

t.test('of processes that want one name at once one has it', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  await (await open(path)).close()
  const children = ['a', 'b', 'c'].map((name) => start(t, 'holder', path, 'recovery', name, '60000'))
  const result = (await Promise.all(children.map(errorTextOf))) as { lease: number | null }[]
  t.equal(result.filter(({ lease }) => lease !== null).length, 1)
})
