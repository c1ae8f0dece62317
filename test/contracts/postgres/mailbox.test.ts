import t from 'tap'
import { mailboxContract } from '../mailbox.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('letters in PostgreSQL', { skip }, async (t) =>
  mailboxContract(t, async (t) => {
    const here = await makePostgres(t)
    return [here, await makePostgres(t, { schema: here.schema })] as const
  }),
)
