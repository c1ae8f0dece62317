import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { recoverMessageAddress, recoverTransactionAddress, recoverTypedDataAddress } from 'viem'
import type { Egress } from '../../core/ports/egress.ts'
import { openApprovals } from '../../test/helpers/vault/mcp/openApprovals.ts'
import { startMcp } from '../../test/helpers/vault/mcp/startMcp.ts'
import { signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'

const ours = '0x9858EfFD232B4033E47d90003D41EC34EcaEda94'
const names = [
  'vault_get_address',
  'vault_list_scopes',
  'vault_budget_check',
  'vault_preview_tx',
  'vault_read',
  'vault_write',
  'vault_sign_tx',
  'vault_sign_message',
  'vault_sign_typed_data',
  'vault_sign_x402',
  'vault_call_api',
  'vault_approval_status',
  'vault_activity',
  'vault_lock',
]

async function start(t: Test, scopes: readonly string[], options: Parameters<typeof startMcp>[1] = {}) {
  const mcp = await startMcp(t, options)
  const agent = await mcp.vault.agent('a', scopes)
  if (scopes.includes('wallet.base')) await mcp.vault.api.policies.set('a', smallPayments, mcp.vault.owner)
  return { ...mcp, agent, ...(await mcp.connect(agent)) }
}

const offer = {
  x402Version: 2,
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

const note = {
  types: {
    EIP712Domain: [{ name: 'name', type: 'string' }],
    Note: [{ name: 'text', type: 'string' }],
  },
  primaryType: 'Note',
  domain: { name: 'Example' },
  message: { text: 'hello' },
} as const

/** `signBody` without the fields that MCP does not have. */
const transfer = (amount: string, nonce = 0) => {
  const { agent_name, ...claim } = signBody(amount, nonce)
  return claim
}

t.test('the tools are exactly those of the specification, each described for an agent', async (t) => {
  const { client } = await start(t, [])
  const { tools } = await client.listTools()
  t.strictSame(tools.map(({ name }) => name).sort(), [...names].sort())
  for (const tool of tools) {
    t.ok((tool.description ?? '').length > 60, tool.name)
    t.equal(tool.inputSchema.type, 'object')
    t.equal(tool.outputSchema?.type, 'object')
    const { chain } = tool.inputSchema.properties ?? {}
    if (chain !== undefined) t.match(chain, { enum: ['solana', 'base', 'ethereum'] })
  }
  t.notOk(tools.some(({ name }) => /unlock|approve$|agents|polic/.test(name)))
  const guide = readFileSync(new URL('../../docs/how-to/vault-mcp.md', import.meta.url), 'utf8')
  for (const { name } of tools) t.match(guide, `| \`${name}\` `, `${name} is in the guide`)
})

t.test('hints say what a tool does: what spends, replaces or shuts is destructive', async (t) => {
  const { client } = await start(t, [])
  const { tools } = await client.listTools()
  // Omitted hints have the protocol's defaults.
  const usual = { readOnlyHint: false, destructiveHint: true, openWorldHint: true }
  const having = (hint: keyof typeof usual) =>
    tools.filter(({ annotations }) => annotations?.[hint] ?? usual[hint]).map(({ name }) => name)
  t.strictSame(having('readOnlyHint'), [
    'vault_get_address',
    'vault_list_scopes',
    'vault_budget_check',
    'vault_preview_tx',
    'vault_read',
    'vault_approval_status',
    'vault_activity',
  ])
  t.strictSame(
    having('destructiveHint').sort(),
    [...names].sort(),
    'but that counts only where more than reading is done',
  )
  t.strictSame(having('openWorldHint'), ['vault_sign_x402', 'vault_call_api'])
})

t.test('addresses, scopes, budgets and previews are told without asking anybody', async (t) => {
  const { call, vault } = await start(t, ['wallet.base', 'wallet.solana', 'ask:identity.name'])
  t.strictSame((await call('vault_get_address', { chain: 'base' })).structuredContent, {
    address: ours,
    chain: 'base',
  })
  t.match((await call('vault_get_address', { chain: 'solana' })).structuredContent.address, /^HAgk14/)
  const { scopes } = (await call('vault_list_scopes')).structuredContent
  t.match(
    scopes.find(({ verb }: { verb: string }) => verb === 'read'),
    { scope: 'identity.name', approval: 'ask' },
  )
  const fits = (amount: number | string) =>
    call('vault_budget_check', { chain: 'base', amount, currency: 'USDC' })
  t.match((await fits(5)).structuredContent, { ok: true })
  t.match((await fits('5.01')).structuredContent, { ok: false, code: 'BUDGET_EXCEEDED_TX' })
  t.match((await fits(1)).structuredContent.budget, [{ per_day: '20000000', per_transaction: '5000000' }])
  const verdict = async (amount: string) =>
    (await call('vault_preview_tx', transfer(amount))).structuredContent
  t.match(await verdict('0.5'), { verdict: 'auto', from: ours, effects: [/0\.5 USDC/], opaque: false })
  t.match(await verdict('2'), { verdict: 'ask' })
  t.match(await verdict('6'), { verdict: 'refuse', code: 'BUDGET_EXCEEDED_TX' })
  t.strictSame(vault.api.approvals.list(vault.owner).approvals, [])
})

t.test('a small transaction is signed at once, a larger one when the owner agrees', async (t) => {
  const { call, vault } = await start(t, ['wallet.base'])
  const small = await call('vault_sign_tx', transfer('0.5'))
  t.equal(await recoverTransactionAddress({ serializedTransaction: small.structuredContent.signed_tx }), ours)
  t.strictSame(JSON.parse(small.content[0]!.text), small.structuredContent, 'the text says the same')

  const pendingApproval = await call('vault_sign_tx', {
    ...transfer('2'),
    wait_seconds: 0,
    purpose: 'A book.',
  })
  t.match(pendingApproval.structuredContent, {
    status: 'pending',
    approval_id: /^apr_/,
    next: /call this tool again/,
  })
  t.notOk(pendingApproval.isError)
  const { approval_id } = pendingApproval.structuredContent
  const status = async () => (await call('vault_approval_status', { approval_id })).structuredContent
  t.match(await status(), { status: 'pending', purpose: 'A book.', effects: [/2 USDC/] })
  const { decision_hash } = vault.api.approvals.get(approval_id, vault.owner)
  await vault.api.approvals.approve(approval_id, decision_hash, vault.owner)
  t.match(await status(), { status: 'approved', decided_by: 'owner' })
  const signed = await call('vault_sign_tx', { ...transfer('2'), wait_seconds: 0 })
  t.equal(
    await recoverTransactionAddress({ serializedTransaction: signed.structuredContent.signed_tx }),
    ours,
  )
  t.match(await status(), { status: 'consumed' })
  const { events } = (await call('vault_activity', { action: 'SIGN', limit: 2 })).structuredContent
  t.match(events, [
    { agent: 'a', status: 'APPROVED', amount: 2, currency: 'USDC' },
    { status: 'PENDING', amount: 2 },
  ])
})

t.test('messages and typed data are signed by the same wallet', async (t) => {
  const { call, vault } = await start(t, ['wallet.base'])
  await vault.api.policies.set('a', { ...smallPayments, messages: 'auto' }, vault.owner)
  const message = 'Sign in to example.com'
  const plain = await call('vault_sign_message', { chain: 'base', message })
  t.equal(await recoverMessageAddress({ message, signature: plain.structuredContent.signature }), ours)

  const typed_data = note
  const asked = (await call('vault_sign_typed_data', { chain: 'base', typed_data, wait_seconds: 0 }))
    .structuredContent
  t.equal(asked.status, 'pending', 'what is not understood is for the owner')
  const { decision_hash, second_word } = vault.api.approvals.get(asked.approval_id, vault.owner)
  await vault.api.approvals.approve(asked.approval_id, decision_hash, vault.owner, second_word)
  const { signature } = (await call('vault_sign_typed_data', { chain: 'base', typed_data })).structuredContent
  t.equal(await recoverTypedDataAddress({ ...typed_data, signature }), ours)
})

t.test('an offer is paid once under one key, and once more under another', async (t) => {
  const { call } = await start(t, ['wallet.base'])
  const pay = async (idempotency_key: string, max_amount: string | number = '0.25') =>
    (await call('vault_sign_x402', { payment_required: offer, max_amount, idempotency_key }))
      .structuredContent
  const first = await pay('one')
  t.match(JSON.parse(Buffer.from(first.payment_header, 'base64').toString()), {
    payload: { authorization: { value: '250000' } },
  })
  t.strictSame(await pay('one'), first)
  t.not((await pay('two')).payment_header, first.payment_header)
  t.match(await pay('three', 0.2), { error: { code: 'BUDGET_EXCEEDED_TX' } })
  const { budget } = (await call('vault_budget_check', { chain: 'base', amount: 1, currency: 'USDC' }))
    .structuredContent
  t.equal(budget[0].spent, '500000')
})

t.test('null is what was left out, for every argument of every tool that may be', async (t) => {
  const { call, client } = await start(t, [
    'wallet.base',
    'auto:write:custom.*',
    'read:custom.*',
    'vault.lock',
  ])
  await call('vault_write', { scope: 'custom.a', value: 'x' })
  const given: Record<string, object> = {
    vault_get_address: { chain: 'base' },
    vault_budget_check: { chain: 'base', amount: 1 },
    vault_preview_tx: transfer('0.5'),
    vault_read: { scope: 'custom.a' },
    vault_write: { scope: 'custom.a', value: 'y' },
    vault_sign_tx: transfer('0.5'),
    vault_sign_message: { chain: 'base', message: 'hello', wait_seconds: 0 },
    vault_sign_typed_data: { chain: 'base', typed_data: JSON.stringify(note), wait_seconds: 0 },
    vault_sign_x402: { payment_required: JSON.stringify(offer), max_amount: '1' },
  }
  const { tools } = await client.listTools()
  for (const { name, inputSchema } of tools) {
    const { properties = {}, required = [] } = inputSchema
    const optional = Object.keys(properties).filter((field) => !required.includes(field))
    const nulls = Object.fromEntries(optional.map((field) => [field, null]))
    const { isError, structuredContent } = await call(name, { ...nulls, ...given[name] })
    if (given[name] !== undefined || required.length === 0)
      t.notOk(isError, `${name} ${JSON.stringify(structuredContent)}`)
  }
})

t.test('what is an object may come as its JSON text, and is the same request', async (t) => {
  const { call, vault } = await start(t, ['wallet.base', 'wallet.ethereum'])
  const asked = async (typed_data: unknown) =>
    (await call('vault_sign_typed_data', { chain: 'base', typed_data, wait_seconds: 0 })).structuredContent
  const { approval_id } = await asked(note)
  t.equal((await asked(JSON.stringify(note))).approval_id, approval_id)
  t.match((await asked('{"types":')).error, { code: 'VALIDATION_ERROR' })
  t.match((await asked('[]')).error, { code: 'VALIDATION_ERROR' })
  const { parts } = vault.api.approvals.get(approval_id, vault.owner)
  t.match(parts[1], { title: 'Message', text: /hello/ })
  const pay = async (payment_required: unknown, wait_seconds = 0) =>
    (await call('vault_sign_x402', { payment_required, max_amount: 2, wait_seconds, idempotency_key: 'k' }))
      .structuredContent
  const dear = { ...offer, accepts: [{ ...offer.accepts[0], amount: '2000000' }] }
  const { approval_id: id } = await pay(dear)
  t.equal((await pay(JSON.stringify(dear))).approval_id, undefined, 'a key is for the same arguments')
  t.match(vault.api.approvals.get(id, vault.owner), { amount: '2', kind: 'payment' })
  t.match(
    (
      await call('vault_sign_x402', {
        payment_required: JSON.stringify(dear),
        max_amount: 2,
        wait_seconds: 0,
      })
    ).structuredContent,
    { status: 'pending' },
  )
  const json = {
    type: '0x2',
    chainId: 1,
    nonce: 0,
    to: ours,
    value: '0x1',
    gas: '0x5208',
    maxFeePerGas: '0x1',
    maxPriorityFeePerGas: '0x1',
  }
  const preview = async (unsigned_tx: unknown) =>
    (await call('vault_preview_tx', { chain: 'ethereum', unsigned_tx })).structuredContent
  t.strictSame(await preview(JSON.stringify(json)), await preview(json))
})

t.test('no field of a result is null: what is not there is left out', async (t) => {
  const { call } = await start(t, ['wallet.base'])
  const { structuredContent: fits, content } = await call('vault_budget_check', {
    chain: 'base',
    amount: 1,
    currency: 'USDC',
  })
  t.match(fits, { ok: true })
  t.notOk('code' in fits)
  t.notMatch(content[0]!.text, 'null')
})

t.test('values are written and read, the owner deciding where the grant says so', async (t) => {
  const { call, vault } = await start(t, ['auto:write:custom.*', 'read:custom.*', 'ask:identity.email'])
  const scope = 'custom.note'
  t.strictSame((await call('vault_write', { scope, value: 'one' })).structuredContent, {
    scope,
    created: true,
    version: 1,
  })
  t.strictSame((await call('vault_read', { scope })).structuredContent, { value: 'one' })
  await vault.asOwner('POST', '/v1/vault/write', { scope: 'identity.email', value: 'ada@example.com' })
  const waiting = call('vault_read', { scope: 'identity.email', wait_seconds: 100 })
  const [pendingApproval] = await openApprovals(vault, 1)
  await vault.api.approvals.approve(pendingApproval!.id, pendingApproval!.decision_hash, vault.owner)
  t.strictSame((await waiting).structuredContent, { value: 'ada@example.com' })
})

t.test('an API is called with a credential that the agent never sees', async (t) => {
  const seen: string[] = []
  const types: (string | undefined)[] = []
  const egress = () => ({
    request: async ({ url, headers }: Parameters<Egress['request']>[0]) => {
      seen.push(`${url} ${headers?.['authorization']}`)
      types.push(headers?.['content-type'])
      const body = Buffer.from('you are s3cret-s3cret')
      return { status: 200, headers: { 'content-type': 'text/plain' }, body, bodyBytes: body.length }
    },
  })
  const { call, vault } = await start(t, ['credentials.api.example'], { egress: egress as never })
  await vault.asOwner('POST', '/v1/vault/write', {
    scope: 'credentials.api.example',
    value: 's3cret-s3cret',
    settings: { rules: [{ origin: 'https://api.example.com', methods: ['GET', 'POST'], paths: ['/v1/**'] }] },
  })
  const ask = (path: string) =>
    call('vault_call_api', {
      scope: 'credentials.api.example',
      method: 'GET',
      url: `https://api.example.com${path}`,
    })
  const response = (await ask('/v1/me')).structuredContent
  t.match(response, { status: 200, headers: { 'content-type': 'text/plain' }, body_encoding: 'utf8' })
  t.notMatch(response.body, 's3cret')
  t.strictSame(seen, ['https://api.example.com/v1/me Bearer s3cret-s3cret'])
  const sent = async (headers: unknown, body: unknown) =>
    (
      await call('vault_call_api', {
        scope: 'credentials.api.example',
        method: 'POST',
        url: 'https://api.example.com/v1/me',
        headers,
        body,
      })
    ).structuredContent
  for (const [headers, body, type] of [
    [{ accept: 'a/b' }, { a: 1 }, 'application/json'],
    ['{"accept":"a/b"}', '{"a":1}', 'application/json'],
    ['{"content-type":"text/csv"}', '[1]', 'text/csv'],
    [null, 'a=1', undefined],
    [null, '{a}', undefined],
  ]) {
    t.equal((await sent(headers, body)).status, 200)
    t.equal(types.pop(), type)
  }
  t.match((await sent('accept: a/b', '')).error, { code: 'VALIDATION_ERROR', message: /^headers: / })
  t.match((await ask('/admin')).structuredContent.error, { code: 'SCOPE_DENIED' })
  const read = await call('vault_read', { scope: 'credentials.api.example' })
  t.match(read.structuredContent.error, { code: 'SCOPE_DENIED' })
})

t.test('what is refused is a result that the agent can read and act on', async (t) => {
  const { call, client, vault } = await start(t, ['wallet.base', 'identity.name'])
  for (const [tool, args, code] of [
    ['vault_read', {}, 'VALIDATION_ERROR'],
    ['vault_read', { scope: 'identity.name', scoop: 1 }, 'VALIDATION_ERROR'],
    ['vault_read', { scope: 'name' }, 'UNKNOWN_SCOPE'],
    ['vault_read', { scope: 'identity.name' }, 'NOT_FOUND'],
    ['vault_read', { scope: 'identity.email' }, 'SCOPE_DENIED'],
    ['vault_read', { scope: 'identity.name', wait_seconds: -1 }, 'VALIDATION_ERROR'],
    ['vault_read', { scope: 'identity.name', wait_seconds: '1' }, 'VALIDATION_ERROR'],
    ['vault_list_scopes', { idempotency_key: 'k' }, 'VALIDATION_ERROR'],
    ['vault_get_address', { chain: 'dogecoin' }, 'VALIDATION_ERROR'],
    ['vault_get_address', { chain: 'base', chian: 'x' }, 'VALIDATION_ERROR'],
    ['vault_get_address', { chain: 'solana' }, 'SCOPE_DENIED'],
    ['vault_list_scopes', { all: true }, 'VALIDATION_ERROR'],
    ['vault_list_scopes', { wait_seconds: 1 }, 'VALIDATION_ERROR'],
    ['vault_budget_check', { chain: 'base' }, 'VALIDATION_ERROR'],
    ['vault_preview_tx', { chain: 'base' }, 'VALIDATION_ERROR'],
    ['vault_approval_status', { approval_id: 'apr_none' }, 'NOT_FOUND'],
    ['vault_approval_status', { approval_id: { $ne: 1 } }, 'VALIDATION_ERROR'],
    ['vault_activity', { limit: 0 }, 'VALIDATION_ERROR'],
    ['vault_activity', { since: {} }, 'VALIDATION_ERROR'],
    ['vault_activity', { agent: 'b' }, 'VALIDATION_ERROR'],
    ['vault_sign_tx', { ...transfer('1'), amount: 2 }, 'TX_MISMATCH'],
    ['vault_sign_tx', transfer('6'), 'BUDGET_EXCEEDED_TX'],
    ['vault_sign_tx', { ...transfer('1'), idempotency_key: 7 }, 'VALIDATION_ERROR'],
    ['vault_sign_tx', { ...transfer('1'), unsigned_tx: 'zz' }, 'INVALID_TX'],
  ] as const) {
    const { isError, structuredContent, content } = await call(tool, args)
    t.equal(isError, true, `${tool} ${code}`)
    t.strictSame(Object.keys(structuredContent), ['error'])
    t.match(structuredContent.error, { code, message: /^\S+ /, action: /^[A-Z]/, retryable: false })
    t.notMatch(content[0]!.text, /\.ts:\d|\bat .*\(/, 'without a stack')
  }
  await t.rejects(client.callTool({ name: 'vault_unlock', arguments: { password: 'x' } }), { code: -32602 })
  t.strictSame(vault.api.approvals.list(vault.owner).approvals, [])
})

t.test('denied is denied, and the rate of an agent counts here, too', async (t) => {
  const { call, connect, vault } = await start(t, ['ask:identity.name'])
  const waiting = call('vault_read', { scope: 'identity.name', wait_seconds: 100 })
  const [pendingApproval] = await openApprovals(vault, 1)
  await vault.api.approvals.deny(pendingApproval!.id, vault.owner)
  t.match((await waiting).structuredContent.error, {
    code: 'APPROVAL_DENIED',
    details: { approval_id: pendingApproval!.id },
  })
  const slow = await vault.api.agents.add(
    { name: 'slow', scopes: ['wallet.base'], requestsPerMinute: 1 },
    vault.owner,
  )
  const other = await connect(slow as never)
  t.notOk((await other.call('vault_get_address', { chain: 'base' })).isError)
  t.match((await other.call('vault_get_address', { chain: 'base' })).structuredContent.error, {
    code: 'RATE_LIMIT_EXCEEDED',
    retryable: true,
    retry_after_seconds: 60,
  })
})

t.test(
  'an agent with the grant may lock the vault, and then everything but the list of tools waits for the owner',
  async (t) => {
    const { call, client, connect, vault } = await start(t, ['wallet.base', 'vault.lock'])
    const other = await connect(await vault.agent('b', ['wallet.base']))
    t.match((await other.call('vault_lock')).structuredContent.error, { code: 'SCOPE_DENIED' })
    t.equal(vault.api.state().locked, false)
    t.strictSame((await call('vault_lock')).structuredContent, { locked: true })
    t.equal(vault.api.state().locked, true)
    for (const [tool, args] of [
      ['vault_get_address', { chain: 'base' }],
      ['vault_list_scopes', {}],
      ['vault_sign_tx', transfer('0.5')],
    ] as const)
      t.match((await call(tool, args)).structuredContent.error, { code: 'VAULT_LOCKED', retryable: true })
    t.equal((await client.listTools()).tools.length, names.length)
  },
)
