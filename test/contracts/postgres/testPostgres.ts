import type { Test } from 'tap'
import { openPostgres, type PostgresOptions } from '../../../adapters/store/postgres/openPostgres.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { databaseUrl, newSchema } from '../../helpers/postgres.ts'
import { testClock } from '../samples.ts'

export { databaseUrl, whySkipped } from '../../helpers/postgres.ts'

/** A store of its own for one test, in a schema of its own that goes with the test, with the test's clocks. */
export async function makePostgres(t: Test, more: Partial<PostgresOptions> = {}) {
  const clock = testClock()
  const storeClock = testClock()
  const schema = more.schema ?? newSchema(t).schema
  const options = { url: databaseUrl, schema, maxConnections: 4, clock, storeClock, log: silentLog }
  const store = await openPostgres({ ...options, ...more })
  t.teardown(() => store.close())
  return { ...store, clock, storeClock, schema }
}

/** Two stores on the same tables, each with connections of its own, as two gateways have. */
export async function makeTwo(t: Test) {
  const here = await makePostgres(t)
  return [here, await makePostgres(t, { schema: here.schema })] as const
}
