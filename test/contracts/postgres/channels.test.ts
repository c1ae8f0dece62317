import t from 'tap'
import { channelBooksContract } from '../channelBooks.ts'
import { channelsContract } from '../channels.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('channels in PostgreSQL', { skip }, async (t) => channelsContract(t, makePostgres))
t.test('books of channels in PostgreSQL', { skip }, async (t) => channelBooksContract(t, makePostgres))
