import t, { type Test } from 'tap'
import { openSqlite } from '../../../adapters/sqlite/openSqlite.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { booksContract } from '../books/books.ts'
import { browserSessionsContract } from '../browserSessions.ts'
import { changesContract } from '../changes.ts'
import { discoveryContract } from '../discovery.ts'
import { feesContract } from '../fees.ts'
import { figuresContract } from '../figures.ts'
import { healthChecksContract } from '../healthChecks.ts'
import { leasesContract } from '../leases.ts'
import { linksContract } from '../links.ts'
import { oversightContract } from '../oversight.ts'
import { picturesContract } from '../pictures.ts'
import { purchasesContract } from '../purchases.ts'
import { refundsContract } from '../refunds.ts'
import { reviewsContract } from '../reviews.ts'
import { testClock } from '../samples.ts'
import { sessionPaymentsContract } from '../sessions/sessionPayments.ts'
import { sessionsContract } from '../sessions/sessions.ts'
import { apiKeysContract, renamesContract, signInNoncesContract, storesContract } from '../stores.ts'
import { webhookEventsContract } from '../webhooks/webhookEvents.ts'
import { webhooksContract } from '../webhooks/webhooks.ts'

/** A store of its own for one test, with the test's clocks. */
async function make(t: Test) {
  const clock = testClock()
  const storeClock = testClock()
  const store = await openSqlite({ path: ':memory:', clock, storeClock, log: silentLog })
  t.teardown(() => store.close())
  return { ...store, clock, storeClock }
}

t.test('books in SQLite', async (t) => booksContract(t, make))
t.test('leases in SQLite', async (t) => leasesContract(t, make))
t.test('purchases in SQLite', async (t) => purchasesContract(t, make))
t.test('fees in SQLite', async (t) => feesContract(t, make))
t.test('refunds in SQLite', async (t) => refundsContract(t, make))
t.test('the oversight of stores in SQLite', async (t) => oversightContract(t, make))
t.test('pictures in SQLite', async (t) => picturesContract(t, make))
t.test('health checks in SQLite', async (t) => healthChecksContract(t, make))
t.test('figures in SQLite', async (t) => figuresContract(t, make))
t.test('reviews in SQLite', async (t) => reviewsContract(t, make))
t.test('discovery in SQLite', async (t) => discoveryContract(t, make))
t.test('links in SQLite', async (t) => linksContract(t, make))
t.test('stores in SQLite', async (t) => storesContract(t, make))
t.test('renames in SQLite', async (t) => renamesContract(t, make))
t.test('API keys in SQLite', async (t) => apiKeysContract(t, make))
t.test('browser sessions in SQLite', async (t) => browserSessionsContract(t, make))
t.test('sign-in nonces in SQLite', async (t) => signInNoncesContract(t, make))
t.test('webhooks in SQLite', async (t) => webhooksContract(t, make))
t.test('events of webhooks in SQLite', async (t) => webhookEventsContract(t, make))
t.test('payment sessions in SQLite', async (t) => sessionsContract(t, make))
t.test('payments of sessions in SQLite', async (t) => sessionPaymentsContract(t, make))
t.test('changes in SQLite', async (t) => changesContract(t, async (t) => (await make(t)).changes))
