import t from 'tap'
import { channelsContract } from '../channels.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('channels in PostgreSQL', { skip }, async (t) => channelsContract(t, makePostgres))
