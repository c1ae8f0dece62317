import t from 'tap'
import { createTestClock, type JsonResponse, startVault } from '../../test/helpers/vault/startVault.ts'
import { signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'
import type { PaymentRpc } from '../effects/payment.ts'
import type { VaultEvent } from './bus.ts'

const codeOf = ({ status, body }: JsonResponse) => [status, body.error?.code]
const noWait = { prefer: 'wait=0' }

/** Bodies whose decoding fails, so that a response shows whether decoding was started; and the result of the decoding. */
const unreadable = [
  ['sign', { ...signBody('1'), unsigned_tx: 'zz' }, 'INVALID_TX'],
  ['sign-typed-data', { chain: 'base', typed_data: { domain: {} } }, 'VALIDATION_ERROR'],
  ['sign-message', { chain: 'base', message: 'zz', encoding: 'hex' }, 'VALIDATION_ERROR'],
  ['sign-payment', { payment_required: 'zz', max_amount: '1' }, 'VALIDATION_ERROR'],
  ['preview', { chain: 'base', unsigned_tx: 'zz' }, 'INVALID_TX'],
  [
    'call',
    { scope: 'credentials.api.x', method: 'GET', url: 'https://x.example/a/%2e%2e/b' },
    'VALIDATION_ERROR',
  ],
] as const

t.test('who may not, hears so before anything of the request is decoded or a node is asked', async (t) => {
  let requestCount = 0
  const rpc: PaymentRpc = () => void requestCount++ as never
  const vault = await startVault(t, { rpc })
  const may = await vault.agent('may', ['wallet.base', 'credentials.api.x'])
  const mayNot = await vault.agent('may not', ['wallet.solana', 'custom.*', 'address:wallet.base'])
  for (const [path, body, code] of unreadable) {
    t.equal((await may.call('POST', `/v1/vault/${path}`, body, noWait)).body.error.code, code, path)
    const asksOnSolana = path === 'sign-payment' ? { ...body, network: 'eip155:8453' } : body
    t.strictSame(
      codeOf(await mayNot.call('POST', `/v1/vault/${path}`, asksOnSolana, noWait)),
      [403, 'SCOPE_DENIED'],
      path,
    )
  }
  const none = await vault.agent('none', [])
  t.strictSame(
    codeOf(await none.call('POST', '/v1/vault/sign-payment', { payment_required: 'zz', max_amount: '1' })),
    [403, 'SCOPE_DENIED'],
    'an offer on whatever chain',
  )
  t.equal(requestCount, 0)
})

t.test('who asks too often, hears that before its grants are looked at', async (t) => {
  const vault = await startVault(t)
  const { id, token } = await vault.agent('a', [])
  await vault.api.agents.update(id, { requestsPerMinute: 1 }, vault.owner)
  const headers = { authorization: `Bearer ${token}`, ...noWait }
  const [[path, body]] = unreadable
  const ask = () => vault.call('POST', `/v1/vault/${path}`, body, headers)
  t.strictSame(codeOf(await ask()), [403, 'SCOPE_DENIED'])
  t.strictSame(codeOf(await ask()), [429, 'RATE_LIMIT_EXCEEDED'])
})

t.test('every agent has a rate of its own, also one without a number', async (t) => {
  const clock = createTestClock()
  const vault = await startVault(t, { clock })
  const add = async (name: string, more: object) => {
    const scopes = ['address:wallet.base']
    const added = await vault.asOwner('POST', '/v1/vault/agents', { name, scopes, ...more })
    return { view: added.body, headers: { authorization: `Bearer ${added.body.token}` } }
  }
  const fresh = await add('fresh', {})
  t.equal(fresh.view.requests_per_minute, 120)
  const other = await add('other', { requests_per_minute: null })
  const passed = async ({ headers }: typeof fresh, times: number) => {
    const ask = () => vault.call('GET', '/address/base', undefined, headers)
    const responses = await Promise.all(Array.from({ length: times }, ask))
    for (const response of responses)
      if (response.status === 429) t.ok(Number(response.headers['retry-after']) >= 1)
    return responses.filter(({ status }) => status === 200).length
  }
  t.equal(await passed(fresh, 130), 120)
  clock.advance(30_000)
  t.equal(await passed(fresh, 130), 60, 'half a minute later, half of it and not all')
  t.equal(await passed(other, 130), 120, 'each agent has its own')
  const change = { requests_per_minute: 200 }
  const changed = await vault.asOwner('PATCH', `/v1/vault/agents/${fresh.view.id}`, change)
  t.equal(changed.body.requests_per_minute, 200)
  clock.advance(60_000)
  t.equal(await passed(fresh, 210), 200)
})

t.test(
  'asking and taking back is bounded, and the owner hears once of an agent that goes on with it',
  async (t) => {
    const vault = await startVault(t)
    const agent = await vault.agent('nag', ['ask:custom.*'])
    const received: VaultEvent[] = []
    const receivedByAgent: VaultEvent[] = []
    vault.api.watch(vault.owner, (event) => void received.push(event))
    const caller = { kind: 'agent', agent: vault.api.agentOf(agent.id)!, via: 'direct' } as const
    vault.api.watch({ caller, requestId: 'a' }, (event) => void receivedByAgent.push(event))
    const ask = (i: number) => agent.call('POST', '/v1/vault/read', { scope: `custom.n${i}` }, noWait)
    for (let i = 0; i < 30; i++) {
      const { status, body } = await ask(i)
      t.equal(status, 202)
      await agent.call('POST', `/v1/vault/approvals/${body.approval_id}/cancel`, {})
    }
    for (let i = 30; i < 33; i++) {
      const response = await ask(i)
      t.strictSame(codeOf(response), [429, 'RATE_LIMIT_EXCEEDED'])
      t.equal(response.headers['retry-after'], '3600')
    }
    const notices = received.filter(({ type }) => type === 'notice')
    t.match(notices, [{ agentId: agent.id, text: /^nag sends too many requests/ }])
    t.equal(notices.length, 1)
    t.equal(receivedByAgent.filter(({ type }) => type === 'approval').length, 60)
    t.notOk(receivedByAgent.some(({ type }) => type === 'notice'))
    const { events } = (await vault.asOwner('GET', '/v1/vault/activity?status=DENIED')).body
    t.equal(events.length, 1, 'and the log has it')
  },
)

t.test(
  'an answer that was given under an Idempotency-Key is not given while the vault is locked',
  async (t) => {
    const vault = await startVault(t, { clock: createTestClock() })
    const agent = await vault.agent('a', ['wallet.base'])
    await vault.api.policies.set('a', smallPayments, vault.owner)
    const keyed = { 'idempotency-key': 'k', ...noWait }
    const sign = (amount = '0.5') => agent.call('POST', '/v1/vault/sign', signBody(amount), keyed)
    const first = await sign()
    t.equal(first.status, 200)
    t.strictSame((await sign()).body, first.body)
    await vault.asOwner('POST', '/v1/vault/lock', {})
    t.strictSame(codeOf(await sign()), [423, 'VAULT_LOCKED'])
    t.strictSame(codeOf(await sign('0.6')), [423, 'VAULT_LOCKED'], 'nor that there was one')
    await vault.asOwner('POST', '/v1/vault/unlock', { password: 'correct horse battery staple' })
    t.strictSame((await sign()).body, first.body)
    t.strictSame(codeOf(await sign('0.6')), [409, 'IDEMPOTENCY_CONFLICT'])
    await vault.api.agents.update(agent.id, { requestsPerMinute: 1 }, vault.owner)
    t.equal((await sign()).status, 429, 'and it counts as a request')
  },
)

t.test('an agent has one query of the log at a time', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('curious', ['identity.name'])
  const { audit } = vault.vault
  const query = audit.query.bind(audit)
  let running = 0
  let most = 0
  audit.query = async (what) => {
    most = Math.max(most, ++running)
    try {
      return await query(what)
    } finally {
      running--
    }
  }
  const look = (cursor: string) => agent.call('GET', `/v1/vault/activity?cursor=${cursor}`)
  const responses = await Promise.all(['1', '2', '3', 'x', '4', '5'].map(look))
  t.strictSame(
    responses.map(({ status }) => status),
    [200, 200, 200, 400, 200, 200],
    'one that is refused holds up none behind it',
  )
  t.equal(most, 1)
})
