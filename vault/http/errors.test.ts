import t, { type Test } from 'tap'
import {
  createTestClock,
  type JsonResponse,
  password,
  startVault,
} from '../../test/helpers/vault/startVault.ts'
import { signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'
import { vaultCodes } from '../errors/codes.ts'

const noWait = { prefer: 'wait=0' }

function isError(t: Test, response: JsonResponse, code: keyof typeof vaultCodes): void {
  const { status, retryable } = vaultCodes[code]
  t.equal(response.status, status, code)
  const keys = Object.keys(response.body.error)
  t.ok(keys.every((key) => ['code', 'message', 'action', 'retryable', 'details'].includes(key)))
  t.match(response.body, { error: { code, retryable, message: /^\S+ /, action: /^[A-Z]/ } })
  t.strictSame(Object.keys(response.body), ['error'])
  if (status === 429) t.ok(Number(response.headers['retry-after']) >= 1)
}

t.test('each refusal has its status, its code and what to do', async (t) => {
  const clock = createTestClock()
  const vault = await startVault(t, { clock })
  const agent = await vault.agent('a', [
    'identity.name',
    'wallet.base',
    'sign:wallet.ethereum',
    'ask:identity.email',
    'auto:write:custom.*',
  ])
  await vault.api.policies.set('a', smallPayments, vault.owner)
  const post = (path: string, body: object, headers = noWait) =>
    agent.call('POST', `/v1/vault/${path}`, body, headers)
  const is = (response: JsonResponse, code: keyof typeof vaultCodes) => isError(t, response, code)

  is(await post('read', { agent_name: 'a' }), 'VALIDATION_ERROR')
  is(await post('read', { scope: 'identity.name', agent_name: 7 }), 'VALIDATION_ERROR')
  is(await post('sign', { ...signBody('1'), unsigned_tx: 'zz' }), 'INVALID_TX')
  for (const scope of [
    'name',
    'identity.fullname',
    'Identity.Name',
    'identity',
    'identity.name.',
    ' identity.name',
    '../x',
  ])
    is(await post('read', { scope, agent_name: 'a' }), 'UNKNOWN_SCOPE')
  is(await vault.call('POST', '/v1/vault/read', { scope: 'identity.name' }), 'UNAUTHORIZED')
  is(await post('read', { scope: 'identity.phone', agent_name: 'a' }), 'SCOPE_DENIED')
  is(await post('read', { scope: 'identity.name', agent_name: 'a' }), 'NOT_FOUND')
  is(await agent.call('GET', '/v1/vault/nothing'), 'NOT_FOUND')
  is(await agent.call('GET', '/%76%31/capabilities'), 'NOT_FOUND')
  is(await agent.call('GET', '/v1/vault/%61pprovals/apr_none'), 'NOT_FOUND')
  is(await agent.call('GET', '/%61ddress/base'), 'NOT_FOUND')
  is(await agent.call('GET', '/address/solana'), 'SCOPE_DENIED')
  is(await agent.call('GET', '/address/dogecoin'), 'VALIDATION_ERROR')
  is(await agent.call('GET', '/v1/vault/agents'), 'OWNER_REQUIRED')
  const wrongMethod = await agent.call('GET', '/v1/vault/sign')
  is(wrongMethod, 'METHOD_NOT_ALLOWED')
  t.equal(wrongMethod.headers['allow'], 'POST')
  is(await post('sign', signBody('6')), 'BUDGET_EXCEEDED_TX')
  is(await post('sign', { ...signBody('1'), amount: 2 }), 'TX_MISMATCH')
  is(await post('sign', { ...signBody('1'), chain: 'ethereum' }), 'CHAIN_MISMATCH')

  const pendingApproval = await post('read', { scope: 'identity.email', agent_name: 'a' })
  t.equal(pendingApproval.status, 202)
  const waiting = t.rejects(
    vault.api.request(
      'vault_read',
      { scope: 'identity.email' },
      { caller: { kind: 'agent', agent: vault.api.registry.byName('a')!, via: 'mcp' }, requestId: 'w' },
    ),
    { code: 'APPROVAL_DENIED', status: 403 },
  )
  await vault.asOwner('POST', `/v1/vault/approvals/${pendingApproval.body.approval_id}/deny`, {})
  await waiting

  const limited = await vault.asOwner('POST', '/v1/vault/agents', {
    name: 'slow',
    scopes: ['identity.name'],
    requests_per_minute: 1,
  })
  t.equal(limited.status, 201)
  const slow = { authorization: `Bearer ${limited.body.token}` }
  const read = () => vault.call('POST', '/v1/vault/read', { scope: 'identity.name' }, slow)
  is(await read(), 'NOT_FOUND')
  is(await read(), 'RATE_LIMIT_EXCEEDED')
  for (const path of ['scopes', 'budget', 'approvals', 'activity'])
    is(await vault.call('GET', `/v1/vault/${path}`, undefined, slow), 'RATE_LIMIT_EXCEEDED')
  is(await vault.asOwner('POST', '/v1/vault/agents', { name: 'a', scopes: [] }), 'ALREADY_EXISTS')

  await vault.asOwner('POST', '/v1/vault/lock', {})
  is(await post('read', { scope: 'identity.name', agent_name: 'a' }), 'VAULT_LOCKED')
  is(await vault.call('POST', '/v1/vault/unlock', { password }), 'OWNER_REQUIRED')
  is(await vault.asOwner('POST', '/v1/vault/unlock', { password: 'not this one' }), 'BAD_PASSWORD')
  is(await vault.asOwner('POST', '/v1/vault/unlock', { password }), 'TOO_MANY_ATTEMPTS')
  clock.advance(3_600_000)
  t.equal((await vault.asOwner('POST', '/v1/vault/unlock', { password })).status, 200)
  is(await vault.asOwner('POST', '/v1/vault/unlock', { password: 7 }), 'VALIDATION_ERROR')
})

t.test('what is written can be read, replaced and deleted', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('a', ['auto:write:custom.*', 'read:custom.*', 'custom.asked'])
  const post = async (path: string, body: object) =>
    (await agent.call('POST', `/v1/vault/${path}`, body)).body
  const scope = 'custom.note'
  t.strictSame(await post('write', { scope, value: 'one' }), { scope, created: true, version: 1 })
  t.strictSame(await post('write', { scope, value: 'two' }), { scope, created: false, version: 2 })
  t.strictSame(await post('read', { scope }), { value: 'two' })
  t.strictSame(await post('delete', { scope }), { deleted: true })
  t.strictSame(await post('delete', { scope }), { deleted: false })
  const onKey = { scope: 'wallet.base', value: 'x' }
  t.match(await post('write', onKey), { error: { code: 'SCOPE_DENIED' } }, 'there is no grant for that')
  isError(t, await vault.asOwner('POST', '/v1/vault/write', onKey), 'VALIDATION_ERROR')
})

t.test('the owner hears what happens as it happens, an agent what is its own', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('a', ['ask:identity.name'])
  const other = await vault.agent('b', ['ask:identity.name'])
  const received = Promise.withResolvers<string>()
  const events = await fetch(`${vault.url}/v1/vault/events`, {
    headers: { authorization: `Bearer ${agent.token}` },
  })
  t.match(events.headers.get('content-type'), /^text\/event-stream/)
  const reader = events.body!.getReader()
  void (async () => {
    let text = ''
    for (;;) {
      const { value, done } = await reader.read()
      text += Buffer.from(value ?? []).toString()
      if (done || text.includes('"agent":"a"')) return received.resolve(text)
    }
  })()
  await other.call('POST', '/v1/vault/read', { scope: 'identity.name' }, noWait)
  await agent.call('POST', '/v1/vault/read', { scope: 'identity.name' }, noWait)
  const text = await received.promise
  t.match(text, /^event: approval\ndata: \{/m)
  t.notMatch(text, /"agent":"b"/)
  await reader.cancel()
})

t.test('a payment is built by the vault, within the price that the agent names', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('buyer', ['wallet.base'])
  await vault.api.policies.set('buyer', smallPayments, vault.owner)
  const payment_required = {
    x402Version: 2,
    error: 'payment required',
    resource: { url: 'https://api.example.com/hello', description: 'A greeting', mimeType: 'text/plain' },
    accepts: [
      {
        scheme: 'exact',
        network: 'eip155:8453',
        amount: '250000',
        asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
        payTo: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
        maxTimeoutSeconds: 60,
        extra: { name: 'USD Coin', version: '2' },
      },
    ],
  }
  const pay = (more: object, headers: Record<string, string> = noWait) =>
    agent.call(
      'POST',
      '/v1/vault/sign-payment',
      { payment_required, max_amount: '0.25', agent_name: 'x', ...more },
      headers,
    )
  const paid = await pay({})
  t.strictSame([paid.status, Object.keys(paid.body)], [200, ['payment_header']])
  const { payload, accepted } = JSON.parse(Buffer.from(paid.body.payment_header, 'base64').toString())
  t.match(payload.authorization, { to: /^0x7099/i, value: '250000' })
  t.strictSame(accepted, payment_required.accepts[0])
  t.not(
    (await pay({})).body.payment_header,
    paid.body.payment_header,
    'the same offer again is another purchase',
  )
  const key = { 'idempotency-key': 'k', ...noWait }
  t.equal((await pay({}, key)).body.payment_header, (await pay({}, key)).body.payment_header)
  isError(t, await pay({ max_amount: '0.24' }), 'BUDGET_EXCEEDED_TX')

  await vault.api.policies.delete('buyer', vault.owner)
  const pendingApproval = await pay({})
  t.equal(pendingApproval.status, 202)
  t.equal((await pay({})).body.approval_id, pendingApproval.body.approval_id)
  const { decision_hash, effects } = vault.api.approvals.get(pendingApproval.body.approval_id, vault.owner)
  t.match(effects[0], /Pay for .*api\.example\.com/)
  t.match(effects.at(-1), /submitted by the seller before its offer expires/)
  t.notMatch(effects.join(), /\d{4}-\d\d-\d\dT/, 'no time that is another with every building')
  await vault.api.approvals.approve(pendingApproval.body.approval_id, decision_hash, vault.owner)
  t.equal((await pay({})).status, 200)
  t.equal((await pay({})).status, 202, 'one answer pays once')
})
