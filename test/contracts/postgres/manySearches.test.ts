import pg from 'pg'
import t from 'tap'
import { atMost } from '../../../adapters/postgres/atMost.ts'
import { databaseUrl, makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('however many search for what takes long, links are found and leases given', { skip }, async (t) => {
  const store = await makePostgres(t, { maxConnections: 8 })
  const other = new pg.Client({ connectionString: databaseUrl })
  await other.connect()
  t.teardown(() => other.end())
  // As long as this has the table, no search ends.
  await other.query(`BEGIN; LOCK TABLE ${store.schema}.listings IN ACCESS EXCLUSIVE MODE`)
  const wanted = { sort: 'newest', limit: 10, offset: 0 } as const
  const searches = Array.from({ length: 20 }, () => store.discovery.search(wanted))
  const ends = Promise.allSettled(searches)
  t.equal(await store.links.served('nobody', 'nothing'), undefined)
  t.ok(await store.leases.take('process:one', 10_000))
  t.strictSame(await store.health(), [])
  await other.query('COMMIT')
  t.ok((await ends).every((end) => end.status === 'fulfilled' && end.value.total === 0))
})

t.test('those who wait go on in their order, and whoever is too far behind is refused', async (t) => {
  const inTurn = atMost(2)
  const begun: number[] = []
  const gates = Array.from({ length: 210 }, () => Promise.withResolvers<number>())
  const asked = gates.map(({ promise }, i) =>
    inTurn(() => {
      begun.push(i)
      return promise
    }),
  )
  const ends = Promise.allSettled(asked)
  await t.rejects(asked[202]!, { code: 'store_unavailable' })
  t.strictSame(begun, [0, 1])
  gates[1]!.reject(new Error('not this one'))
  await t.rejects(asked[1]!, /not this one/)
  gates[0]!.resolve(0)
  t.equal(await asked[0], 0)
  for (const [i, { resolve }] of gates.entries()) resolve(i)
  const served = (await ends).filter(({ status }) => status === 'fulfilled').length
  t.equal(served, 201)
  t.strictSame(
    begun,
    Array.from({ length: 202 }, (_, i) => i),
  )
})
