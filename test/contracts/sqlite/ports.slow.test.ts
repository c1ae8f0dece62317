import t, { type Test } from 'tap'
import { createChanges } from '../../../adapters/memory/changes.ts'
import { createSqliteChanges } from '../../../adapters/sqlite/changes.ts'
import { openSqlite } from '../../../adapters/sqlite/openSqlite.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { changesContract } from '../changes.ts'
import { linksContract } from '../links.ts'
import { paymentsContract } from '../payments.ts'
import { purchasesContract } from '../purchases.ts'
import { refundsContract } from '../refunds.ts'
import { testClock } from '../samples.ts'
import { apiKeysContract, renamesContract, signInNoncesContract, storesContract } from '../stores.ts'

/** A store of its own for one test, with the test's clock. */
async function make(t: Test) {
  const clock = testClock()
  const store = await openSqlite({ path: ':memory:', clock, log: silentLog })
  t.teardown(() => store.close())
  return { ...store, clock }
}

async function makeChanges(t: Test) {
  const changes = createSqliteChanges(await make(t), { log: silentLog })
  t.teardown(() => changes.close())
  return changes
}

t.test('payments in SQLite', async (t) => paymentsContract(t, make))
t.test('purchases in SQLite', async (t) => purchasesContract(t, make))
t.test('refunds in SQLite', async (t) => refundsContract(t, make))
t.test('links in SQLite', async (t) => linksContract(t, make))
t.test('stores in SQLite', async (t) => storesContract(t, make))
t.test('renames in SQLite', async (t) => renamesContract(t, make))
t.test('API keys in SQLite', async (t) => apiKeysContract(t, make))
t.test('sign-in nonces in SQLite', async (t) => signInNoncesContract(t, make))
t.test('changes in SQLite', async (t) => changesContract(t, makeChanges))
t.test('changes in memory', async (t) => changesContract(t, async () => createChanges()))
