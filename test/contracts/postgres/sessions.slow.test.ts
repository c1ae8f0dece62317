import t from 'tap'
import { sessionPaymentsContract } from '../sessions/sessionPayments.ts'
import { sessionsContract } from '../sessions/sessions.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('payment sessions in PostgreSQL', { skip }, async (t) => sessionsContract(t, makePostgres))
t.test('payments of sessions in PostgreSQL', { skip }, async (t) => sessionPaymentsContract(t, makePostgres))
