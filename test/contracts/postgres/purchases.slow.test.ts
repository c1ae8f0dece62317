import t from 'tap'
import { purchasesContract } from '../purchases.ts'
import { refundsContract } from '../refunds.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('refunds in PostgreSQL', { skip }, async (t) => refundsContract(t, makePostgres))
t.test('purchases in PostgreSQL', { skip }, async (t) => purchasesContract(t, makePostgres))
