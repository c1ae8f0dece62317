import pg from 'pg'
import t from 'tap'
import { checkedLedger } from '../../helpers/checkedLedger.ts'
import {
  change,
  claimed,
  keyOf,
  saleOf,
  sampleAttempt,
  sampleClaim,
  samplePurchase,
  sampleResponse,
} from '../samples.ts'
import { databaseUrl, makePostgres, makeTwo, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test(
  'connections that are killed in the middle lose nothing that was acknowledged and leave nothing half done',
  { skip },
  async (t) => {
    const store = await makePostgres(t)
    const killer = new pg.Client({ connectionString: databaseUrl })
    await killer.connect()
    t.teardown(() => killer.end())
    const states = new Map<string, string>()
    const kill = `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
      WHERE a.application_name = 'tollgate' AND a.state = 'active' AND a.query LIKE 'SELECT books_%' AND a.pid IN (
        SELECT l.pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1)`
    let [unavailable, isOver] = [0, false]
    const sellers = Array.from({ length: 16 }, async (_, seller) => {
      for (let i = 0; !isOver; i++) {
        const name = `s${seller}-${i}`
        const claim = sampleClaim(name)
        try {
          const row = await claimed(store, claim)
          states.set(name, 'claimed')
          const attempt = { ...sampleAttempt, sequence: null, transaction: `0x${name}` }
          const response = { ...sampleResponse, body: Buffer.alloc(3_000, name) }
          const settling = { attempt, response, lease: claim.lease, durability: 'flushed' } as const
          if (!(await store.ledger.apply(change(claim, row, 'claimed', 'settling', settling))))
            return t.fail(name)
          states.set(name, 'settling')
          const sale = { ...saleOf(samplePurchase(claim, `0x${name}`)), durability: 'visible' as const }
          if (!(await store.ledger.apply(change(claim, row, 'settling', 'settled', sale))))
            return t.fail(name)
          states.set(name, 'settled')
        } catch (error) {
          if ((error as { code?: unknown }).code !== 'store_unavailable') throw error
          unavailable++
        }
      }
    })
    for (let round = 0; round < 12; round++) {
      while (states.size < (round + 1) * 40) await new Promise(setImmediate)
      // One that is in the middle of a group of this store: it has locks on its tables.
      for (let killed = 0; killed === 0; ) killed = (await killer.query(kill, [store.schema])).rowCount ?? 0
    }
    isOver = true
    await Promise.all(sellers)
    t.ok(unavailable > 0, 'some were told that it is not known')
    const order = ['claimed', 'settling', 'settled']
    for (const [name, state] of states) {
      const record = await store.ledger.find(keyOf(name))
      if (record === undefined || order.indexOf(record.state) < order.indexOf(state))
        t.fail(`${name} was ${state}, and is ${record?.state}`)
      const response = record && (await store.ledger.responseOf(record.row))
      if (state !== 'claimed' && response?.body.length !== 3_000) t.fail(`the answer of ${name}`)
    }
    const findings = await checkedLedger(store.purchases)
    t.match(findings, {
      broken: { length: 0 },
      unbalanced: { length: 0 },
      chargedPayments: findings.purchases,
    })
    for (const { purchaseId } of findings.transactions)
      if ((await store.purchases.ledger(purchaseId)).length !== 4) t.fail(`half a sale: ${purchaseId}`)
  },
)

t.test(
  'a text that the database has no letters for is stored without them, and keeps nobody up',
  { skip },
  async (t) => {
    const { ledger } = await makePostgres(t)
    const claims = ['k1', 'k2', 'k3'].map((name) => sampleClaim(name))
    const odd = sampleClaim('odd', { payload: 'a\0b', requestHash: 'half \ud800 of it' })
    const results = await Promise.all([...claims, odd].map((claim) => ledger.claim(claim)))
    t.ok(results.every(({ won }) => won))
    t.match(await ledger.find(odd.key), { payload: 'a\ufffdb', requestHash: 'half \ufffd of it' })
    const { row } = (await ledger.find(odd.key))!
    t.equal(await ledger.apply(change(odd, row, 'claimed', 'settling', { errorReason: 'it\0s' })), true)
    await ledger.putOff([{ row, state: 'settling', afterMs: 5, tries: 1, reason: 'why\0' }])
    t.match(await ledger.find(odd.key), { errorReason: 'it\ufffds', dueReason: 'why\ufffd' })
  },
)

t.test(
  'one that the database can not take at all is told so, and those beside it are written',
  { skip },
  async (t) => {
    const { ledger } = await makePostgres(t)
    const bad = sampleClaim('bad', { lease: 1e30 })
    const results = await Promise.allSettled(
      [sampleClaim('k1'), bad, sampleClaim('k2')].map((claim) => ledger.claim(claim)),
    )
    t.strictSame(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    )
    const [row] = await Promise.all(['k1', 'k2'].map(async (name) => (await ledger.find(keyOf(name)))!.row))
    const changes = [1e30, 7].map((takenBy) =>
      ledger.apply(change(sampleClaim('k1'), row!, 'claimed', 'claimed', { takenBy })),
    )
    t.strictSame(
      (await Promise.allSettled(changes)).map(({ status }) => status),
      ['rejected', 'fulfilled'],
    )
  },
)

t.test(
  'changes of one row happen in the order in which they came, whatever waits for the disk',
  { skip },
  async (t) => {
    const { ledger } = await makePostgres(t)
    for (let round = 0; round < 20; round++) {
      const claim = sampleClaim(`k${round}`)
      const row = await claimed({ ledger }, claim)
      const steps = [
        'settling',
        'pending',
        'settled',
        'delivered',
        'refund_due',
        'settled',
        'delivered',
      ] as const
      const done = await Promise.all(
        steps.map((to, i) =>
          ledger.apply(
            change(claim, row, i === 0 ? 'claimed' : steps[i - 1]!, to, {
              durability: (i + round) % 2 === 0 ? 'flushed' : 'visible',
            }),
          ),
        ),
      )
      t.strictSame(done, Array(steps.length).fill(true))
    }
  },
)

t.test(
  'what was handed over before the end is written, and what comes after it is refused',
  { skip },
  async (t) => {
    const [here, there] = await makeTwo(t)
    const claims = Array.from({ length: 600 }, (_, i) => sampleClaim(`k${i}`))
    const under = Promise.all(claims.map((claim) => here.ledger.claim(claim)))
    await here.close()
    t.ok((await under).every(({ won }) => won))
    await t.rejects(here.ledger.claim(sampleClaim('late')), { code: 'store_unavailable' })
    await t.rejects(here.ledger.find(keyOf('k1')), { code: 'store_unavailable' })
    t.equal((await there.ledger.list({ states: ['claimed'], limit: 1_000 })).length, claims.length)
  },
)
