import t from 'tap'
import { parseTransaction, recoverTransactionAddress, serializeTransaction } from 'viem'
import { fiveADay, noWait, startWithPolicy } from '../../test/helpers/vault/policies.ts'
import { password, type RunningVault } from '../../test/helpers/vault/startVault.ts'
import { payee, signBody, smallPayments, usdcTransfer } from '../../test/helpers/vault/transfers.ts'

const ours = '0x9858EfFD232B4033E47d90003D41EC34EcaEda94'

const signatures = async (vault: RunningVault) =>
  (await vault.asOwner('GET', '/v1/vault/activity?action=SIGN')).body.events

t.test(
  'a signature answers with the fields of the document, and it is ours over the very bytes',
  async (t) => {
    const { agent } = await startWithPolicy(t)
    const { status, body } = await agent.call('POST', '/v1/vault/sign', signBody('0.5'))
    t.strictSame([status, Object.keys(body).sort()], [200, ['signature', 'signed_tx']])
    t.equal(await recoverTransactionAddress({ serializedTransaction: body.signed_tx }), ours)
    const { r, s, v, yParity, ...unsigned } = parseTransaction(body.signed_tx)
    t.equal(serializeTransaction(unsigned as never), usdcTransfer('0.5'))
    t.match(body.signature, /^0x[0-9a-f]{130}$/)
    const [event] = (await agent.call('GET', '/v1/vault/activity')).body.events
    t.match(event, { agent: 'payer', action: 'SIGN', amount: 0.5, currency: 'USDC', status: 'AUTO_APPROVED' })
  },
)

t.test(
  'the same bytes are signed, counted and written down once, however often they are asked for',
  async (t) => {
    const { agent, vault, spent } = await startWithPolicy(t)
    const ask = (body: object = signBody('0.5')) => agent.call('POST', '/v1/vault/sign', body)
    const atOnce = await Promise.all(Array.from({ length: 10 }, () => ask()))
    const later = [await ask(), await ask({ ...signBody('0.5'), agent_name: 'someone', recipient: payee })]
    const responses = [...atOnce, ...later]
    t.ok(responses.every(({ status }) => status === 200))
    t.equal(new Set(responses.map(({ body }) => body.signed_tx)).size, 1)
    t.equal((await signatures(vault)).length, 1)
    t.equal(spent(), '500000')
    await ask(signBody('0.5', 1))
    t.equal(spent(), '1000000', 'other bytes are another signature')
  },
)

t.test('the same bytes asked for in two encodings are answered in each, and count once', async (t) => {
  const { agent, vault, spent } = await startWithPolicy(t)
  const asJson = (body: ReturnType<typeof signBody>) => {
    const {
      type: _,
      yParity: __,
      ...fields
    } = parseTransaction(body.unsigned_tx as `0x02${string}`) as Record<string, unknown>
    const plain = Object.entries(fields).map(([name, value]) => [
      name,
      typeof value === 'bigint' ? String(value) : value,
    ])
    return { ...body, unsigned_tx: JSON.stringify({ type: 2, nonce: 0, ...Object.fromEntries(plain) }) }
  }
  const ask = (body: object) => agent.call('POST', '/v1/vault/sign', body, noWait)
  const isBoth = (responses: Awaited<ReturnType<typeof ask>>[]) => {
    const [hex, json] = responses.map(({ body }) => body.signed_tx)
    t.match(hex, /^0x02/)
    t.equal(JSON.parse(json).raw, hex)
  }
  const small = signBody('0.5')
  const responses = await Promise.all([small, asJson(small), small, asJson(small)].map(ask))
  isBoth(responses.slice(0, 2))
  isBoth(responses.slice(2))
  isBoth([await ask(small), await ask(asJson(small))])
  t.equal(spent(), '500000')
  t.equal((await signatures(vault)).length, 1)

  const large = signBody('4', 1)
  for (const body of [large, asJson(large)]) {
    t.equal((await ask(body)).status, 202)
    const { id, decision_hash } = await askedBy(vault)
    await vault.api.approvals.approve(id, decision_hash, vault.owner)
    await ask(body)
  }
  isBoth([await ask(large), await ask(asJson(large))])
  t.equal(spent(), '4500000')
})

t.test('after a restart the same bytes give the same signature, and count no more', async (t) => {
  const { agent, vault, spent } = await startWithPolicy(t)
  const first = await agent.call('POST', '/v1/vault/sign', signBody('0.5'))
  await vault.vault.lock('owner')
  await vault.api.unlock(password, vault.owner)
  const again = await agent.call('POST', '/v1/vault/sign', signBody('0.5'))
  t.strictSame(again.body, first.body)
  t.equal(spent(), '500000')
})

t.test('an Idempotency-Key gives one answer, and belongs to one request', async (t) => {
  const { agent, spent } = await startWithPolicy(t)
  const key = { 'idempotency-key': 'order-7' }
  const first = await agent.call('POST', '/v1/vault/sign', signBody('0.5'), key)
  const again = await agent.call('POST', '/v1/vault/sign', signBody('0.5'), key)
  t.strictSame(again.body, first.body)
  t.equal(spent(), '500000')
  const other = await agent.call('POST', '/v1/vault/sign', signBody('0.6'), key)
  t.match([other.status, other.body.error.code], [409, 'IDEMPOTENCY_CONFLICT'])
})

t.test('a claim that the bytes do not keep is refused before anybody is asked', async (t) => {
  const { agent, vault, spent } = await startWithPolicy(t)
  const good = signBody('0.5')
  for (const [change, code] of [
    [{ amount: 0.4 }, 'TX_MISMATCH'],
    [{ amount: 0.6 }, 'TX_MISMATCH'],
    [{ currency: 'USDT' }, 'TX_MISMATCH'],
    [{ currency: 'ETH', amount: 0 }, 'TX_MISMATCH'],
    [{ recipient: ours }, 'TX_MISMATCH'],
    [{ chain: 'ethereum' }, 'CHAIN_MISMATCH'],
    [{ unsigned_tx: `${good.unsigned_tx}00` }, 'INVALID_TX'],
    [{ unsigned_tx: 'AAAA' }, 'INVALID_TX'],
    [{ currency: 'DOGE' }, 'VALIDATION_ERROR'],
    [{ chain: 'bitcoin' }, 'VALIDATION_ERROR'],
    [{ amount: -1 }, 'VALIDATION_ERROR'],
    [{ amount: '1e-1' }, 'VALIDATION_ERROR'],
    [{ recipent: payee }, 'VALIDATION_ERROR'],
  ] as const) {
    const { body } = await agent.call('POST', '/v1/vault/sign', { ...good, ...change }, noWait)
    t.equal(body.error?.code, code, JSON.stringify(change).slice(0, 60))
  }
  t.equal(vault.api.approvals.list(vault.owner).approvals.length, 0)
  t.equal(spent(), '0')
})

t.test('a lie that is refused stays in the log: what was claimed, and what was found', async (t) => {
  const { agent, vault } = await startWithPolicy(t)
  const good = signBody('0.5')
  const evil = 'a\u202e\u001b[2J'.repeat(40)
  for (const [change, claimed, found] of [
    [
      { amount: 0.4, recipient: payee },
      /^Move 0\.4 “USDC” to “0x0{36}dEaD” on “base”$/,
      /^Send 0\.5 USDC to 0x0{36}dEaD.*network/,
    ],
    [{ chain: 'ethereum' }, /^Move 0\.5 “USDC” on “ethereum”$/, /8453/],
    [{ amount: 9, unsigned_tx: usdcTransfer('9') }, /^Move 9 “USDC” on “base”$/, /^Send 9 USDC/],
    [{ recipient: evil.slice(0, 128) }, /“a\\u\{202e\}\\u\{1b\}\[2J/, /^Send 0\.5 USDC/],
  ] as const) {
    await agent.call('POST', '/v1/vault/sign', { ...good, ...change }, noWait)
    const own = (await agent.call('GET', '/v1/vault/activity?limit=1')).body.events[0]
    const owners = (await vault.asOwner('GET', '/v1/vault/activity?limit=1')).body.events[0]
    for (const event of [own, owners]) {
      t.match(event, { status: 'DENIED', claimed, found })
      t.ok(event.claimed.length <= 500 && event.found.length <= 500)
      t.notMatch(event.claimed + event.found, /[\p{Cc}\p{Cf}]/u)
    }
  }
  await agent.call('POST', '/v1/vault/sign', good)
  const done = (await agent.call('GET', '/v1/vault/activity?limit=1')).body.events[0]
  t.strictSame([done.status, 'claimed' in done, 'found' in done], ['AUTO_APPROVED', false, false])
  t.equal((await vault.vault.audit.verify()).ok, true)
})

t.test('what is not understood is never approved by a rule', async (t) => {
  const { agent, vault } = await startWithPolicy(t, {
    ...smallPayments,
    messages: 'auto',
    allowances: 'auto',
  })
  const unsigned_tx = serializeTransaction({
    chainId: 8453,
    type: 'eip1559',
    nonce: 1,
    gas: 60_000n,
    maxFeePerGas: 1_000_000_000n,
    to: payee,
    data: '0xdeadbeef',
  })
  const body = { chain: 'base', agent_name: 'x', amount: 0, currency: 'ETH', unsigned_tx }
  const response = await agent.call('POST', '/v1/vault/sign', body, noWait)
  t.equal(response.status, 202)
  const card = vault.api.approvals.get(response.body.approval_id, vault.owner)
  t.match(card, { opaque: true, status: 'pending', amount: '0' })
  const newest = async () =>
    (await vault.asOwner('GET', '/v1/vault/activity?action=SIGN&limit=1')).body.events[0]
  const pendingApproval = await newest()
  await vault.api.approvalQueue.approve(card.id, card.decision_hash, 'test', 'blind')
  t.equal((await agent.call('POST', '/v1/vault/sign', body, noWait)).status, 200)
  for (const [event, status] of [
    [pendingApproval, 'PENDING'],
    [await newest(), 'APPROVED'],
  ]) {
    t.match(event, { status, claimed: 'Move 0 ETH', found: /NOT DECODED/ })
    t.equal(event.details.amount, null, 'what an agent says is no amount of the log')
  }
  await vault.api.policies.set('payer', { ...smallPayments, opaque: 'deny' }, vault.owner)
  const denied = await agent.call('POST', '/v1/vault/sign', { ...body, amount: '0.0' }, noWait)
  t.match([denied.status, denied.body.error.code], [422, 'TX_OPAQUE'])
})

t.test('rules are for chains that the agent has a scope for', async (t) => {
  const { vault } = await startWithPolicy(t)
  const rule = (chain: string) => ({ ...smallPayments.assets[0], chain })
  const set = (policy: object, id = 'payer') =>
    vault.api.policies.set(id, { ...smallPayments, ...policy }, vault.owner)
  const refused = { code: 'VALIDATION_ERROR', message: /payer has no scope wallet\.solana/ }
  await t.rejects(set({ assets: [rule('base'), rule('solana')] }), refused)
  await t.rejects(set({ fees: [{ chain: 'solana' }] }), refused)
  await set({ assets: [rule('solana')] }, 'default')
  await set({ assets: [rule('base'), rule('ethereum')] })
  const listed = () =>
    vault.api.policies
      .list(vault.owner)
      .policies.find(({ policy }) => JSON.stringify(policy).includes('ethereum'))
  t.strictSame(listed()?.without_scope, [])
  t.match(listed()?.fees, [
    { chain: 'ethereum', symbol: 'ETH', perDay: '0.004', perTransaction: '0.004', autoApproveUpTo: '0.001' },
    { chain: 'base', symbol: 'ETH', perDay: '0.0004', autoApproveUpTo: '0.0001' },
  ])
  await vault.api.agents.update('payer', { scopes: ['wallet.base'] }, vault.owner)
  t.strictSame(listed()?.without_scope, ['ethereum'], 'the rule is kept and does not apply')
})

t.test('a preview says what a request would do and what the rules say, and changes nothing', async (t) => {
  const { agent, vault, spent } = await startWithPolicy(t)
  const preview = async (amount: string) =>
    (await agent.call('POST', '/v1/vault/preview', signBody(amount))).body
  t.match(await preview('0.5'), {
    verdict: 'auto',
    claim_proved: true,
    opaque: false,
    chain: 'base',
    from: ours,
  })
  t.match(await preview('2'), { verdict: 'ask' })
  t.match(await preview('6'), { verdict: 'refuse', code: 'BUDGET_EXCEEDED_TX' })
  const wrong = await agent.call('POST', '/v1/vault/preview', { ...signBody('1'), amount: 2 })
  t.match(wrong.body, { verdict: 'refuse', code: 'TX_MISMATCH' })
  t.equal(spent(), '0')
  t.equal((await signatures(vault)).length, 0)
})

t.test('what an agent may not any more when its owner agrees, is not done', async (t) => {
  const { agent, vault, spent } = await startWithPolicy(t, fiveADay)
  const lower = { ...fiveADay, assets: [{ ...fiveADay.assets[0], perTransaction: '2', perDay: '2' }] }
  for (const [nonce, change, restore, code] of [
    [
      0,
      () => vault.api.policies.set('payer', lower, vault.owner),
      () => vault.api.policies.set('payer', fiveADay, vault.owner),
      'BUDGET_EXCEEDED_TX',
    ],
    [
      1,
      () => vault.api.agents.update(agent.id, { scopes: ['wallet.ethereum'] }, vault.owner),
      () => vault.api.agents.update(agent.id, { scopes: ['wallet.base'] }, vault.owner),
      'SCOPE_DENIED',
    ],
  ] as const) {
    const waiting = agent.call('POST', '/v1/vault/sign', signBody('2.5', nonce), { prefer: 'wait=20' })
    const approval = await askedBy(vault)
    await change()
    await vault.api.approvals.approve(approval.id, approval.decision_hash, vault.owner)
    const refused = await waiting
    t.equal(refused.body.error?.code, code)
    t.equal(spent(), '0')
    await restore()
    await vault.api.approvals.cancel(approval.id, vault.owner)
  }
  t.match(
    (await vault.asOwner('GET', '/v1/vault/activity?action=SIGN&status=DENIED')).body.events.map(
      (event: { details: { code: string } }) => event.details.code,
    ),
    ['SCOPE_DENIED', 'BUDGET_EXCEEDED_TX'],
  )
})

/** The one open approval, once it exists. */
async function askedBy(vault: RunningVault) {
  for (;;) {
    const { approvals } = (await vault.asOwner('GET', '/v1/vault/approvals?status=pending')).body
    if (approvals.length > 0) return approvals[0]
    await new Promise((go) => setTimeout(go, 5))
  }
}
