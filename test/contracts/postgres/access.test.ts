import t from 'tap'
import { accessContract } from '../access.ts'
import { makePostgres, makeTwo, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('access in PostgreSQL', { skip }, async (t) => accessContract(t, makePostgres))

t.test('two gateways accept a nonce of a sign-in once', { skip }, async (t) => {
  const gateways = await makeTwo(t)
  for (let i = 0; i < 10; i++) {
    const uses = Array.from({ length: 20 }, (_, n) => gateways[n % 2]!.nonces.use(`n${i}`, Date.now()))
    t.equal((await Promise.all(uses)).filter(Boolean).length, 1)
  }
})
