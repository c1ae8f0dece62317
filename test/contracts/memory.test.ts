import t, { type Test } from 'tap'
import { createMemory } from '../../adapters/memory/store/memory.ts'
import { openMemory } from '../../adapters/memory/store/openMemory.ts'
import { booksContract } from './books/books.ts'
import { browserSessionsContract } from './browserSessions.ts'
import { changesContract } from './changes.ts'
import { discoveryContract } from './discovery.ts'
import { feesContract } from './fees.ts'
import { figuresContract } from './figures.ts'
import { gasBookContract } from './gasBook.ts'
import { healthChecksContract } from './healthChecks.ts'
import { leasesContract } from './leases.ts'
import { lettersContract } from './letters.ts'
import { linksContract } from './links.ts'
import { oversightContract } from './oversight.ts'
import { picturesContract } from './pictures.ts'
import { purchasesContract } from './purchases.ts'
import { refundsContract } from './refunds.ts'
import { reviewsContract } from './reviews.ts'
import {
  change,
  claimed,
  keyOf,
  sampleClaim,
  sampleKey,
  sampleLink,
  sampleStore,
  testClock,
} from './samples.ts'
import { sessionPaymentsContract } from './sessions/sessionPayments.ts'
import { sessionsContract } from './sessions/sessions.ts'
import { apiKeysContract, renamesContract, signInNoncesContract, storesContract } from './stores.ts'
import { webhookEventsContract } from './webhooks/webhookEvents.ts'
import { webhooksContract } from './webhooks/webhooks.ts'

/** A store of its own for one test, with the test's clocks. */
async function make(t: Test) {
  const clock = testClock()
  const storeClock = testClock()
  const store = openMemory({ memory: createMemory(storeClock), clock })
  t.teardown(() => store.close())
  return { ...store, clock, storeClock }
}

t.test('books in memory', async (t) => booksContract(t, make))
t.test('the gas of stores in memory', async (t) => {
  const { gas } = await make(t)
  await gasBookContract(t, gas, async () => gas)
})
t.test('leases in memory', async (t) => leasesContract(t, make))
t.test('letters in memory', async (t) =>
  lettersContract(t, async (t) => {
    const memory = createMemory(testClock())
    const two = [openMemory({ memory }), openMemory({ memory })] as const
    t.teardown(() => Promise.all(two.map((store) => store.close())))
    return two
  }),
)
t.test('refunds in memory', async (t) => refundsContract(t, make))
t.test('purchases in memory', async (t) => purchasesContract(t, make))
t.test('fees in memory', async (t) => feesContract(t, make))
t.test('the oversight of stores in memory', async (t) => oversightContract(t, make))
t.test('pictures in memory', async (t) => picturesContract(t, make))
t.test('health checks in memory', async (t) => healthChecksContract(t, make))
t.test('figures in memory', async (t) => figuresContract(t, make))
t.test('reviews in memory', async (t) => reviewsContract(t, make))
t.test('discovery in memory', async (t) => discoveryContract(t, make))
t.test('links in memory', async (t) => linksContract(t, make))
t.test('stores in memory', async (t) => storesContract(t, make))
t.test('renames in memory', async (t) => renamesContract(t, make))
t.test('API keys in memory', async (t) => apiKeysContract(t, make))
t.test('browser sessions in memory', async (t) => browserSessionsContract(t, make))
t.test('sign-in nonces in memory', async (t) => signInNoncesContract(t, make))
t.test('webhooks in memory', async (t) => webhooksContract(t, make))
t.test('events of webhooks in memory', async (t) => webhookEventsContract(t, make))
t.test('payment sessions in memory', async (t) => sessionsContract(t, make))
t.test('payments of sessions in memory', async (t) => sessionPaymentsContract(t, make))
t.test('changes in memory', async (t) => changesContract(t, async (t) => (await make(t)).changes))

t.test('a power cut loses what was visible and not flushed since, and nothing else', async (t) => {
  const memory = createMemory(testClock())
  const before = openMemory({ memory })
  const [kept, lost] = [sampleClaim('kept'), sampleClaim('lost')]
  const row = await claimed(before, kept)
  await before.books.apply(change(kept, row, 'claimed', 'settling', { durability: 'flushed', dueInMs: 0 }))
  const lease = (await before.leases.take('recovery', 1_000))!
  await before.books.apply(change(kept, row, 'settling', 'settled', { takenBy: null }))
  await claimed(before, lost)
  memory.powerCut()

  const after = openMemory({ memory })
  t.match(await after.books.find(kept.key), { state: 'settling', lease: kept.lease })
  t.equal((await after.books.due({ states: ['settling'], limit: 9 })).length, 1)
  t.equal(await after.books.find(lost.key), undefined)
  t.equal(await after.leases.renew(lease, 1_000), true, 'a lease that was told is kept')
  const again = await claimed(after, lost)
  t.ok(again > row)
  memory.flush()
  memory.powerCut()
  t.match(await after.books.find(keyOf('lost')), { state: 'claimed', row: again })
})

t.test('processes that share a memory hear of each other, and one that closed is refused', async (t) => {
  const memory = createMemory()
  const [here, there] = [openMemory({ memory }), openMemory({ memory })]
  const heard: unknown[] = []
  here.changes.subscribe((change) => heard.push(change))
  here.changes.subscribe(() => {
    throw new Error('out of order')
  })
  await there.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  await t.rejects(there.stores.create(sampleStore('s2', { username: 'ann' }), null, sampleKey('k2', 's2')))
  await there.links.create(sampleLink('l1', 's1'))
  t.strictSame(heard, [
    { kind: 'store', username: 'ann' },
    { kind: 'link', username: 'ann', slug: 'l1' },
  ])
  await there.close()
  await t.rejects(there.books.claim(sampleClaim('k1')), { code: 'store_unavailable' })
  t.ok(await here.links.find('l1'))
})
