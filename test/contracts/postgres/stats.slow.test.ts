import t from 'tap'
import { statsContract } from '../stats.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('figures in PostgreSQL', { skip }, async (t) => statsContract(t, makePostgres))
