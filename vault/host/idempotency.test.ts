import t from 'tap'
import { Idempotency, type KeyedRequest } from './idempotency.ts'

t.test('whoever uses up keys forgets its own answers, never those of others', async (t) => {
  const keys = new Idempotency()
  let done = 0
  const request = (owner: string, key: string): KeyedRequest => ({
    owner,
    key,
    operation: 'vault_sign_x402',
    requestHash: key,
    admit: () => {},
    work: async () => ({ status: 200, body: { done: ++done } }),
  })
  t.strictSame(await keys.once(request('agt_1', 'mine')), { status: 200, body: { done: 1 } })
  t.strictSame(await keys.once(request('agt_2', 'first')), { status: 200, body: { done: 2 } })
  for (let i = 0; i < 6_000; i++) await keys.once(request('agt_2', `key_${i}`))
  t.strictSame(await keys.once(request('agt_1', 'mine')), { status: 200, body: { done: 1 } })
  t.strictSame(await keys.once(request('agt_2', 'first')), { status: 200, body: { done: 6_003 } })
})
