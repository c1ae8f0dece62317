import t from 'tap'
import { webhookEventsContract } from '../webhooks/webhookEvents.ts'
import { webhooksContract } from '../webhooks/webhooks.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('webhooks in PostgreSQL', { skip }, async (t) => webhooksContract(t, makePostgres))
t.test('events of webhooks in PostgreSQL', { skip }, async (t) => webhookEventsContract(t, makePostgres))
