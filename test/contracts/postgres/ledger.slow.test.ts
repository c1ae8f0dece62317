import t from 'tap'
import { ledgerContract } from '../ledger/ledger.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('books in PostgreSQL', { skip }, async (t) => ledgerContract(t, makePostgres))
