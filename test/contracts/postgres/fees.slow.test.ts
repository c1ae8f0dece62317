import t from 'tap'
import { feesContract } from '../fees.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('fees in PostgreSQL', { skip }, async (t) => feesContract(t, makePostgres))
