import type { Test } from 'tap'
import type { SqliteStore } from '../../../adapters/store/sqlite/openSqlite.ts'
import { accessContract } from '../access.ts'
import { browserSessionsContract } from '../browserSessions.ts'
import { changesContract } from '../changes.ts'
import { channelBooksContract } from '../channelBooks.ts'
import { channelsContract } from '../channels.ts'
import { discoveryContract } from '../discovery.ts'
import { feesContract } from '../fees.ts'
import { healthChecksContract } from '../healthChecks.ts'
import { imagesContract } from '../images.ts'
import { leasesContract } from '../leases.ts'
import { ledgerContract } from '../ledger/ledger.ts'
import { linksContract } from '../links.ts'
import { operatorViewContract } from '../operatorView.ts'
import { purchasesContract } from '../purchases.ts'
import { refundsContract } from '../refunds.ts'
import { reviewsContract } from '../reviews.ts'
import type { testClock } from '../samples.ts'
import { sessionPaymentsContract } from '../sessions/sessionPayments.ts'
import { sessionsContract } from '../sessions/sessions.ts'
import { statsContract } from '../stats.ts'
import { apiKeysContract, renamesContract, signInNoncesContract, storesContract } from '../stores.ts'
import { webhookEventsContract } from '../webhooks/webhookEvents.ts'
import { webhooksContract } from '../webhooks/webhooks.ts'

type Clock = ReturnType<typeof testClock>
/** A store of its own for one test, with the test's clocks. */
type Make = (
  t: Test,
) => Promise<Omit<SqliteStore, 'backup'> & { readonly clock: Clock; readonly storeClock: Clock }>

/** What every port of the store keeps, but for letters and gas, whose contracts need two stores of one file. */
export function portsContract(t: Test, make: Make): void {
  t.test('ledger', async (t) => ledgerContract(t, make))
  t.test('leases', async (t) => leasesContract(t, make))
  t.test('purchases', async (t) => purchasesContract(t, make))
  t.test('fees', async (t) => feesContract(t, make))
  t.test('refunds', async (t) => refundsContract(t, make))
  t.test('the operatorView of stores', async (t) => operatorViewContract(t, make))
  t.test('access', async (t) => accessContract(t, make))
  t.test('images', async (t) => imagesContract(t, make))
  t.test('health checks', async (t) => healthChecksContract(t, make))
  t.test('stats', async (t) => statsContract(t, make))
  t.test('reviews', async (t) => reviewsContract(t, make))
  t.test('discovery', async (t) => discoveryContract(t, make))
  t.test('links', async (t) => linksContract(t, make))
  t.test('stores', async (t) => storesContract(t, make))
  t.test('renames', async (t) => renamesContract(t, make))
  t.test('API keys', async (t) => apiKeysContract(t, make))
  t.test('browser sessions', async (t) => browserSessionsContract(t, make))
  t.test('sign-in nonces', async (t) => signInNoncesContract(t, make))
  t.test('webhooks', async (t) => webhooksContract(t, make))
  t.test('events of webhooks', async (t) => webhookEventsContract(t, make))
  t.test('payment sessions', async (t) => sessionsContract(t, make))
  t.test('payments of sessions', async (t) => sessionPaymentsContract(t, make))
  t.test('channels', async (t) => channelsContract(t, make))
  t.test('books of channels', async (t) => channelBooksContract(t, make))
  t.test('changes', async (t) => changesContract(t, async (t) => (await make(t)).changes))
}
