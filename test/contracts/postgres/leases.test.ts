import t from 'tap'
import { gasBookContract } from '../gasBook.ts'
import { leasesContract } from '../leases.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('leases in PostgreSQL', { skip }, async (t) => leasesContract(t, makePostgres))
t.test('the gas of stores in PostgreSQL', { skip }, async (t) => {
  const { gas, schema } = await makePostgres(t)
  await gasBookContract(t, gas, async () => (await makePostgres(t, { schema })).gas)
})
