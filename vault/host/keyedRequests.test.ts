import t from 'tap'
import { startVault, type TestAgent } from '../../test/helpers/vault/startVault.ts'

const scope = 'custom.note'

t.test('a write or a deletion under an Idempotency-Key is done once, also after a restart', async (t) => {
  const vault = await startVault(t)
  const auto = await vault.agent('auto', ['auto:write:custom.*'])
  const asking = await vault.agent('asking', ['ask:write:custom.*'])
  const under = (key: string) => ({ prefer: 'wait=0', 'idempotency-key': key })
  const asked = async ({ call }: TestAgent, key: string, path: string, body: object) => {
    const { body: open } = await call('POST', path, body, under(key))
    const of = `/v1/vault/approvals/${open.approval_id}`
    const { decision_hash } = (await vault.asOwner('GET', of)).body
    await vault.asOwner('POST', `${of}/approve`, { decision_hash })
    return call('POST', path, body, under(key))
  }
  const write = '/v1/vault/write'
  const remove = '/v1/vault/delete'
  t.equal((await auto.call('POST', write, { scope, value: 'a' }, under('one'))).status, 200)
  t.match((await auto.call('POST', remove, { scope }, under('two'))).body, { deleted: true })
  t.equal((await asked(asking, 'three', write, { scope, value: 'b' })).status, 200)
  t.equal((await auto.call('POST', write, { scope, value: 'c' }, under('four'))).status, 200)
  await vault.close()

  const again = await startVault(t, { home: vault.home })
  const as = ({ token }: TestAgent, key: string, path: string, body: object) =>
    again.call('POST', path, body, { authorization: `Bearer ${token}`, ...under(key) })
  const used = { status: 409, body: { error: { code: 'REQUEST_ID_USED' } } }
  t.match(await as(auto, 'one', write, { scope, value: 'a' }), used)
  t.match(await as(auto, 'two', remove, { scope }), used)
  t.match(
    await as(asking, 'three', write, { scope, value: 'b' }),
    { status: 200, body: { scope, version: 1 } },
    'what was approved has its answer kept',
  )
  t.equal((await again.asOwner('POST', '/v1/vault/read', { scope })).body.value, 'c', 'nothing was undone')
  t.equal((await as(auto, 'five', write, { scope, value: 'a' })).status, 200)
})

t.test('under one key the words about a request may be others, and the request may not', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('auto', ['auto:write:custom.*'])
  const write = async (body: object) => {
    const headers = { 'idempotency-key': 'one' }
    return agent.call('POST', '/v1/vault/write', body, headers)
  }
  const first = await write({ scope, value: 'a', purpose: 'to remember it', agent_name: 'x' })
  t.match(first, { status: 200, body: { version: 1 } })
  for (const same of [
    { scope, value: 'a', purpose: 'So that it is remembered.' },
    { value: 'a', scope },
    { scope, value: 'a', description: 'a note', session_id: 's', purpose: null },
    { scope, value: 'a', idempotency_key: 'one' },
  ])
    t.strictSame((await write(same)).body, first.body, JSON.stringify(same))
  t.match(await write({ scope, value: 'b' }), {
    status: 409,
    body: { error: { code: 'IDEMPOTENCY_CONFLICT' } },
  })
})
