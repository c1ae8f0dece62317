import t from 'tap'
import { lettersContract } from '../letters.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('letters in PostgreSQL', { skip }, async (t) =>
  lettersContract(t, async (t) => {
    const here = await makePostgres(t)
    return [here, await makePostgres(t, { schema: here.schema })] as const
  }),
)
