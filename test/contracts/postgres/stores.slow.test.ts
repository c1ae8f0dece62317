import t from 'tap'
import { sampleKey, sampleStore, startMs } from '../samples.ts'
import { apiKeysContract, renamesContract, signInNoncesContract, storesContract } from '../stores.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('stores in PostgreSQL', { skip }, async (t) => storesContract(t, makePostgres))
t.test('renames in PostgreSQL', { skip }, async (t) => renamesContract(t, makePostgres))
t.test('API keys in PostgreSQL', { skip }, async (t) => apiKeysContract(t, makePostgres))
t.test('sign-in nonces in PostgreSQL', { skip }, async (t) => signInNoncesContract(t, makePostgres))

t.test('a name that one leaves while others ask for it is nobody else’s', { skip }, async (t) => {
  const here = await makePostgres(t)
  const there = await makePostgres(t, { schema: here.schema })
  for (const [id, username] of [
    ['s1', 'ann_0'],
    ['s2', 'ben'],
  ] as const)
    await here.stores.create(sampleStore(id, { username }), null, sampleKey(`k-${id}`, id))
  for (let i = 0; i < 20; i++) {
    const name = `ann_${i}`
    const [left, taken, made] = await Promise.allSettled([
      here.stores.update('s1', { username: `ann_${i + 1}` }, startMs + i),
      there.stores.update('s2', { username: name }, startMs + i),
      there.stores.create(sampleStore(`new${i}`, { username: name }), null, sampleKey(`kn${i}`, `new${i}`)),
    ])
    t.equal(left.status, 'fulfilled')
    for (const other of [taken, made]) t.match(other, { reason: { code: 'USERNAME_TAKEN' } })
    t.equal(await there.stores.redirectOf(name, startMs + i), `ann_${i + 1}`)
  }
})

t.test(
  'two stores that want each other’s name get neither, and a free name has one taker',
  { skip },
  async (t) => {
    const here = await makePostgres(t)
    const there = await makePostgres(t, { schema: here.schema })
    for (const id of ['s1', 's2']) await here.stores.create(sampleStore(id), null, sampleKey(`k-${id}`, id))
    for (let i = 0; i < 10; i++) {
      const swapped = await Promise.allSettled([
        here.stores.update('s1', { username: 's2' }, startMs + i),
        there.stores.update('s2', { username: 's1' }, startMs + i),
      ])
      for (const one of swapped) t.match(one, { reason: { code: 'USERNAME_TAKEN' } })
    }
    const results = await Promise.allSettled([
      here.stores.update('s1', { username: 'free' }, startMs),
      there.stores.update('s2', { username: 'free' }, startMs),
      there.stores.create(sampleStore('s3', { username: 'free' }), null, sampleKey('k3', 's3')),
    ])
    t.equal(results.filter(({ status }) => status === 'fulfilled').length, 1)
  },
)
