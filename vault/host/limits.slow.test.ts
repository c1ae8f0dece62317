import t from 'tap'
import { serializeTransaction } from 'viem'
import { asset, fiveADay, noWait, startWithPolicy } from '../../test/helpers/vault/policies.ts'
import { createTestClock, startVault } from '../../test/helpers/vault/startVault.ts'
import { payee, signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'
import { pinnedAssets } from '../effects/assets.ts'

t.test('what a rule approves counts, and the day ends when it is used up', async (t) => {
  const { agent, spent } = await startWithPolicy(t)
  for (let nonce = 0; nonce < 20; nonce++)
    t.equal((await agent.call('POST', '/v1/vault/sign', signBody('1', nonce))).status, 200)
  t.equal(spent(), '20000000')
  const over = await agent.call('POST', '/v1/vault/sign', signBody('0.000001', 20))
  t.match([over.status, over.body.error.code], [403, 'BUDGET_EXCEEDED_DAILY'])
  t.equal(spent(), '20000000')
})

t.test('a clock that ran ahead is told of, and its owner lets the budgets count for today', async (t) => {
  const ahead = await startVault(t, { clock: createTestClock(Date.UTC(2027, 11, 28)) })
  const { token } = await ahead.agent('payer', ['wallet.base'])
  await ahead.api.policies.set('payer', smallPayments, ahead.owner)
  const own = { authorization: `Bearer ${token}`, prefer: 'wait=0' }
  t.equal((await ahead.call('POST', '/v1/vault/sign', signBody('1', 0), own)).status, 200)
  await ahead.close()

  const clock = createTestClock()
  const vault = await startVault(t, { home: ahead.home, clock })
  const sign = async (nonce: number) =>
    (await vault.call('POST', '/v1/vault/sign', signBody('1', nonce), own)).status
  const warned = async () => (await vault.asOwner('GET', '/v1/vault/status')).body.warnings
  t.match(await warned(), [
    { code: 'BUDGET_DAY_AHEAD', message: /count for 2027-12-28/, action: /reset-day/ },
  ])
  t.equal((await vault.call('POST', '/v1/vault/policies/reset-day', {}, own)).status, 403, 'not by an agent')
  t.equal((await vault.asOwner('POST', '/v1/vault/policies/reset-day', {})).status, 200)
  t.strictSame(await warned(), [])
  for (let nonce = 1; nonce < 20; nonce++) t.equal(await sign(nonce), 200)
  t.equal(await sign(20), 403, 'what was used that day counts today')
})

t.test('many at the same time never spend more than the day allows', async (t) => {
  const { agent, spent } = await startWithPolicy(t)
  const responses = await Promise.all(
    Array.from({ length: 40 }, (_, nonce) => agent.call('POST', '/v1/vault/sign', signBody('1', nonce))),
  )
  t.equal(responses.filter(({ status }) => status === 200).length, 20)
  t.ok(responses.every(({ status, body }) => status === 200 || body.error.code === 'BUDGET_EXCEEDED_DAILY'))
  t.equal(spent(), '20000000')
})

t.test('the vault and one recipient have limits of their own for all agents', async (t) => {
  const { agent, vault } = await startWithPolicy(t)
  const other = await vault.agent('other', ['wallet.base'])
  await vault.api.policies.set('other', smallPayments, vault.owner)
  const limits = [{ chain: 'base', symbol: 'USDC', perDay: '1.5', recipient: payee }]
  await vault.api.policies.set('vault', { limits }, vault.owner)
  t.equal((await agent.call('POST', '/v1/vault/sign', signBody('1', 0))).status, 200)
  const second = await other.call('POST', '/v1/vault/sign', signBody('1', 1))
  t.match(second.body.error, {
    code: 'BUDGET_EXCEEDED_DAILY',
    message: 'Expected at most 1.5 USDC for this recipient in a day, got 1 USDC; 1 USDC already used.',
    details: { subject: 'recipient' },
  })
})

/** A transaction that moves nothing: its gas is its only cost. */
const feeOnly = (chain: 'base' | 'ethereum', nonce: number) => ({
  chain,
  agent_name: 'x',
  amount: 0,
  unsigned_tx: serializeTransaction({
    chainId: chain === 'base' ? 8453 : 1,
    type: 'eip1559',
    nonce,
    gas: 21_000n,
    maxFeePerGas: 1_000_000_000n,
    to: payee,
    value: 0n,
  }),
})

t.test('no fee is paid on a chain without a rule, however often it is asked for', async (t) => {
  const { agent, vault } = await startWithPolicy(t, {
    ...smallPayments,
    messages: 'auto',
    allowances: 'auto',
  })
  for (const chain of ['ethereum', 'base'] as const) {
    for (let nonce = 0; nonce < 5; nonce++) {
      const { status, body } = await agent.call('POST', '/v1/vault/sign', feeOnly(chain, nonce), noWait)
      t.match([status, body.error.code], [403, 'SCOPE_DENIED'])
      t.equal(body.error.message, `The agent has no rule for ETH on ${chain}.`)
      t.match(
        body.error.action,
        `rule for ETH on ${chain} to agent payer, on the approvals page or with: tollgate vault policies set payer --file`,
      )
      t.notMatch(body.error.action, 'scope')
    }
  }
  const { reasons } = (await agent.call('POST', '/v1/vault/preview', feeOnly('ethereum', 0))).body
  t.match(reasons, [/no rule for ETH/, /policies set payer/])
  t.strictSame(vault.api.approvals.list(vault.owner).approvals, [])
  t.ok(
    vault.api
      .budget(vault.owner, 'payer')
      .budget.every(({ spent, reserved }) => spent === '0' && reserved === '0'),
  )
})

t.test('what only costs a fee is asked for, and the day has so much room for fees and no more', async (t) => {
  const eth = pinnedAssets.native('base').id
  const rule = { chain: 'base', symbol: 'ETH', perTransaction: '1', perDay: '1', autoApproveUpTo: '1' }
  const { agent, vault } = await startWithPolicy(t, { ...smallPayments, assets: [rule] })
  const pendingApproval = await agent.call('POST', '/v1/vault/sign', feeOnly('base', 0), noWait)
  t.equal(pendingApproval.status, 202)
  t.match(vault.api.approvals.get(pendingApproval.body.approval_id, vault.owner).reasons, [/moves nothing/])
  const lines = vault.api.budget(vault.owner, 'payer').budget
  t.match(
    lines.find((line) => line.asset === `${eth}/fees`),
    { reserved: '21000000000000', per_day: '100000000000000' },
    'held while it waits',
  )
  t.match(
    lines.find((line) => line.asset === eth),
    { reserved: '21000000000000', per_day: String(10n ** 18n) },
  )
  const responses = []
  for (let nonce = 1; nonce < 6; nonce++)
    responses.push(await agent.call('POST', '/v1/vault/sign', feeOnly('base', nonce), noWait))
  t.strictSame(
    responses.map(({ status }) => status),
    [202, 202, 202, 403, 403],
  )
  t.match(responses.at(-1)!.body.error, { code: 'BUDGET_EXCEEDED_DAILY', message: /fees per day/ })
})

t.test('the vault has limits of its own for fees, for all payers', async (t) => {
  const { agent, vault } = await startWithPolicy(t)
  const other = await vault.agent('other', ['wallet.base'])
  await vault.api.policies.set('other', smallPayments, vault.owner)
  // One transfer costs 0.000006 ETH at most.
  const fees = [{ chain: 'base', perDay: '0.00001' }]
  await vault.api.policies.set('vault', { limits: [], fees }, vault.owner)
  t.equal((await agent.call('POST', '/v1/vault/sign', signBody('1', 0))).status, 200)
  const second = await other.call('POST', '/v1/vault/sign', signBody('1', 1))
  t.match(second.body.error, { code: 'BUDGET_EXCEEDED_DAILY', details: { subject: 'vault', asset: /fees/ } })
  for (const bad of [
    { fees },
    { limits: [], fees: {} },
    { limits: [], fees: [{ ...fees[0], symbol: 'ETH' }] },
  ])
    await t.rejects(vault.api.policies.set('vault', bad, vault.owner), { code: 'VALIDATION_ERROR' })
})

t.test('a budget can be asked for and checked', async (t) => {
  const { agent } = await startWithPolicy(t)
  await agent.call('POST', '/v1/vault/sign', signBody('1'))
  const { body } = await agent.call('GET', '/v1/vault/budget')
  t.match(
    body.budget.find((line: { asset: string }) => line.asset === asset),
    { spent: '1000000', reserved: '0', per_transaction: '5000000', per_day: '20000000' },
  )
  const check = (amount: number) =>
    agent.call('POST', '/v1/vault/budget/check', { chain: 'base', amount, currency: 'USDC', agent_name: 'x' })
  t.match((await check(5)).body, { ok: true, code: null })
  t.match((await check(5.1)).body, { ok: false, code: 'BUDGET_EXCEEDED_TX' })
  const other = { chain: 'base', amount: 0.0001, currency: 'ETH', agent_name: 'x' }
  t.match((await agent.call('POST', '/v1/vault/budget/check', other)).body, {
    ok: false,
    code: 'SCOPE_DENIED',
    details: { message: /no rule for ETH on base/, action: /policies set payer/ },
  })
})

t.test(
  'the room in the day that a request takes up is not held against it when it is asked again',
  async (t) => {
    const { agent, vault, spent } = await startWithPolicy(t, fiveADay)
    const ask = (amount: string, nonce: number, headers: Record<string, string> = noWait) =>
      agent.call('POST', '/v1/vault/sign', signBody(amount, nonce), headers)
    for (const headers of [{}, { 'idempotency-key': 'order-1' }]) {
      const atOnce = await Promise.all([0, 1, 2].map(() => ask('1', 0, { ...noWait, ...headers })))
      t.strictSame(
        atOnce.map(({ status }) => status),
        [200, 200, 200],
      )
    }
    const pendingApproval = await Promise.all([0, 1].map(() => ask('4', 1)))
    pendingApproval.push(await ask('4', 1))
    t.strictSame(
      pendingApproval.map(({ status }) => status),
      [202, 202, 202],
    )
    t.equal(new Set(pendingApproval.map(({ body }) => body.approval_id)).size, 1)
    const other = await ask('0.5', 2)
    t.equal(
      other.body.error.code,
      'BUDGET_EXCEEDED_DAILY',
      'what is held back is not there for anything else',
    )
    const [{ id, decision_hash }] = (await vault.asOwner('GET', '/v1/vault/approvals?status=pending')).body
      .approvals
    await vault.asOwner('POST', `/v1/vault/approvals/${id}/approve`, { decision_hash })
    const responses = [await ask('4', 1), await ask('4', 1), await ask('1', 0)]
    t.strictSame(
      responses.map(({ status }) => status),
      [200, 200, 200],
    )
    t.equal(responses[0]!.body.signed_tx, responses[1]!.body.signed_tx)
    t.equal(spent(), '5000000')
  },
)
