import t from 'tap'
import { operatorViewContract } from '../operatorView.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('the operatorView of stores in PostgreSQL', { skip }, async (t) =>
  operatorViewContract(t, makePostgres),
)
