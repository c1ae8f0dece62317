import t from 'tap'
import { oversightContract } from '../oversight.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('the oversight of stores in PostgreSQL', { skip }, async (t) => oversightContract(t, makePostgres))
