import t from 'tap'
import { figuresContract } from '../figures.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('figures in PostgreSQL', { skip }, async (t) => figuresContract(t, makePostgres))
