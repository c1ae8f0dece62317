import t from 'tap'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { payee, signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'

const keysOf = (value: object) => Object.keys(value).sort()

t.test(
  'the capabilities document has the fields of its table and the operations of the document',
  async (t) => {
    const vault = await startVault(t)
    const agent = await vault.agent('a', [])
    const { status, body } = await agent.call('GET', '/v1/capabilities')
    t.equal(status, 200)
    t.strictSame(
      keysOf(body),
      ['name', 'version', 'mode', 'local_url', 'chains', 'routes', 'scope_examples', 'notes'].sort(),
    )
    t.match(body, {
      version: '0.2.0',
      mode: 'local',
      local_url: vault.url,
      chains: ['solana', 'base', 'ethereum'],
    })
    for (const route of body.routes)
      t.strictSame(keysOf(route), ['description', 'method', 'operation', 'path'])
    for (const [operation, method, path] of [
      ['get_address', 'GET', '/address/:chain'],
      ['vault_read', 'POST', '/v1/vault/read'],
      ['vault_sign_tx', 'POST', '/v1/vault/sign'],
    ]) {
      t.match(
        body.routes.find((route: { operation: string }) => route.operation === operation),
        { method, path },
      )
    }
  },
)

t.test('address, read, unlock and activity answer with exactly the fields of their tables', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('reader', ['wallet.solana', 'wallet.base', 'identity.name'])
  t.strictSame((await agent.call('GET', '/address/base')).body, {
    address: '0x9858EfFD232B4033E47d90003D41EC34EcaEda94',
    chain: 'base',
  })
  t.strictSame((await agent.call('GET', '/address/solana')).body, {
    address: 'HAgk14JpMQLgt6rVgv7cBQFJWFto5Dqxi472uT3DKpqk',
    chain: 'solana',
  })
  t.equal(
    (await vault.asOwner('POST', '/v1/vault/write', { scope: 'identity.name', value: 'Ada' })).status,
    200,
  )
  const read = await agent.call('POST', '/v1/vault/read', { scope: 'identity.name', agent_name: 'reader' })
  t.strictSame([read.status, read.body], [200, { value: 'Ada' }])

  const { body: activity } = await agent.call('GET', '/v1/vault/activity')
  t.strictSame(keysOf(activity), ['events'])
  t.ok(activity.events.length >= 3)
  for (const event of activity.events) {
    t.strictSame(keysOf(event), ['action', 'agent', 'amount', 'currency', 'status', 'timestamp'])
    t.type(event.amount, 'number')
    t.equal(new Date(event.timestamp).toISOString(), event.timestamp)
  }
  t.match(activity.events[0], { agent: 'reader', action: 'READ', status: 'AUTO_APPROVED' })

  const { token } = (await vault.asOwner('POST', '/v1/vault/owner/sessions', {})).body
  const body = { password: 'correct horse battery staple' }
  const unlocked = await vault.call('POST', '/v1/vault/unlock', body, { authorization: `Bearer ${token}` })
  t.equal(unlocked.status, 200)
  t.strictSame(keysOf(unlocked.body), ['expires_at', 'unlocked'])
  t.equal(unlocked.body.unlocked, true)
})

t.test("what agents of the document's own vault send counts, on every way alike", async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('a', ['wallet.base'])
  await vault.api.policies.set('a', { ...smallPayments, messages: 'auto' }, vault.owner)
  const extra = { session_id: null, description: 'A book', destination: payee }
  const sign = (body: object, headers = {}) => agent.call('POST', '/v1/vault/sign', body, headers)
  const first = { ...signBody('0.5'), ...extra, idempotency_key: 'one' }
  const signed = await sign(first)
  t.equal(signed.status, 200)
  t.strictSame((await sign(first)).body, signed.body)
  t.strictSame((await sign({ ...first, description: 'Another' })).body, signed.body, 'said in other words')
  t.match(await sign({ ...first, ...signBody('0.4') }), {
    status: 409,
    body: { error: { code: 'IDEMPOTENCY_CONFLICT' } },
  })
  t.match(await sign(first, { 'idempotency-key': 'one' }), { status: 200 }, 'said twice')
  t.match(await sign(first, { 'idempotency-key': 'two' }), {
    status: 400,
    body: { error: { message: /^idempotency_key: Expected the same value as the Idempotency-Key/ } },
  })
  t.match(await sign({ ...first, idempotency_key: 7 }), {
    status: 400,
    body: { error: { message: /^idempotency_key: / } },
  })
  t.equal((await sign({ ...signBody('0.5', 1), ...extra, idempotency_key: null })).status, 200)
  const other = `0x${'22'.repeat(20)}`
  t.match((await sign({ ...signBody('0.5', 2), destination: other })).body, {
    error: { code: 'TX_MISMATCH' },
  })

  const pendingApproval = await sign({ ...signBody('2', 3), ...extra }, { prefer: 'wait=0' })
  t.match(vault.api.approvals.get(pendingApproval.body.approval_id, vault.owner), { purpose: 'A book' })
  const both = { ...signBody('2', 4), description: 'A book.', purpose: 'For Ada.' }
  const { body } = await sign(both, { prefer: 'wait=0' })
  t.match(vault.api.approvals.get(body.approval_id, vault.owner), { purpose: 'For Ada. A book.' })

  const text = { chain: 'base', message: 'hello', encoding: 'utf8', ...extra, destination: undefined }
  const message = await agent.call('POST', '/v1/vault/sign_message', text)
  t.strictSame(message.body, (await agent.call('POST', '/v1/vault/sign-message', text)).body)
  t.equal(message.status, 200)
  const typed = { chain: 'base', typed_data: '{}' }
  t.match(await agent.call('POST', '/v1/vault/sign_typed_data', typed), {
    status: 400,
    body: { error: { code: 'VALIDATION_ERROR' } },
  })
  t.match(
    await agent.call('POST', '/v1/vault/budget/check', { chain: 'base', amount: 1, idempotency_key: 'k' }),
    { status: 400 },
    'where it would not be kept',
  )
})
