import t from 'tap'
import {
  createTestClock,
  type RunningVault,
  startVault,
  type TestAgent,
} from '../../test/helpers/vault/startVault.ts'
import { signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'

const noWait = { prefer: 'wait=0' }

async function startWithAgent(
  t: Parameters<typeof startVault>[0],
  options: Parameters<typeof startVault>[1] = {},
) {
  const vault = await startVault(t, options)
  const agent = await vault.agent('payer', ['wallet.base', 'ask:identity.email', 'identity.name'])
  await vault.api.policies.set('payer', smallPayments, vault.owner)
  return { vault, agent }
}

const ask = (agent: TestAgent, nonce = 0, headers: Record<string, string> = noWait) =>
  agent.call('POST', '/v1/vault/sign', signBody('2', nonce), headers)
const shown = (vault: RunningVault, id: string) => vault.api.approvals.get(id, vault.owner)
const approve = (vault: RunningVault, id: string, hash = shown(vault, id).decision_hash) =>
  vault.asOwner('POST', `/v1/vault/approvals/${id}/approve`, { decision_hash: hash })
const reserved = (vault: RunningVault) =>
  vault.api.budget(vault.owner, 'payer').budget.reduce((sum, line) => sum + Number(line.reserved), 0)
const spent = (vault: RunningVault) =>
  vault.api.budget(vault.owner, 'payer').budget.find(({ spent: own }) => Number(own) >= 1_000_000)?.spent
const statuses = async (vault: RunningVault) =>
  (await vault.asOwner('GET', '/v1/vault/activity?action=SIGN')).body.events.map(
    (event: { status: string }) => event.status,
  )

t.test(
  'what needs the owner answers 202 with the way to go on, and the same request again gets its answer',
  async (t) => {
    const { vault, agent } = await startWithAgent(t)
    const first = await ask(agent)
    t.strictSame(
      [first.status, Object.keys(first.body).sort()],
      [202, ['approval_id', 'expires_at', 'poll', 'status']],
    )
    const { approval_id: id, poll } = first.body
    t.match(first.body, { status: 'pending', poll: `/v1/vault/approvals/${id}` })
    t.strictSame((await ask(agent)).body, first.body, 'joins')
    t.match((await agent.call('GET', poll)).body, {
      status: 'pending',
      agent: 'payer',
      amount: '2',
      currency: 'USDC',
    })
    t.ok(reserved(vault) > 2_000_000, 'the money is held back, the fee too')

    t.equal((await approve(vault, id)).status, 200)
    t.equal((await agent.call('GET', poll)).body.status, 'approved')
    const signed = await ask(agent)
    t.strictSame([signed.status, Object.keys(signed.body).sort()], [200, ['signature', 'signed_tx']])
    t.equal(shown(vault, id).status, 'consumed')
    t.strictSame((await ask(agent)).body, signed.body, 'an answer that was lost on its way can be had again')
    t.equal(spent(vault), '2000000', 'and counts once')
    t.strictSame(await statuses(vault), ['APPROVED', 'PENDING'])
  },
)

t.test('a request that waits gets its answer as soon as the owner has given one', async (t) => {
  const { vault, agent } = await startWithAgent(t)
  const received = Promise.withResolvers<string>()
  vault.api.watch(vault.owner, (event) => {
    if (event.type === 'approval' && event.approval.status === 'pending') received.resolve(event.approval.id)
  })
  const waiting = [ask(agent, 0, {}), ask(agent, 0, {}), ask(agent, 0, {})]
  await approve(vault, await received.promise)
  const responses = await Promise.all(waiting)
  t.strictSame(
    responses.map(({ status }) => status),
    [200, 200, 200],
  )
  t.equal(new Set(responses.map(({ body }) => body.signed_tx)).size, 1)
  t.equal(vault.api.approvals.list(vault.owner).approvals.length, 1, 'one question')
  t.strictSame(
    (await statuses(vault)).filter((s: string) => s === 'APPROVED'),
    ['APPROVED'],
    'one signature',
  )
})

t.test('an answer counts once: whoever decides second is told so', async (t) => {
  const { vault, agent } = await startWithAgent(t)
  for (let nonce = 0; nonce < 10; nonce++) {
    const { approval_id: id } = (await ask(agent, nonce)).body
    const path = `/v1/vault/approvals/${id}`
    const body = { decision_hash: shown(vault, id).decision_hash }
    const responses = await Promise.all([
      vault.asOwner('POST', `${path}/approve`, body),
      vault.asOwner('POST', `${path}/deny`, {}),
      vault.asOwner('POST', `${path}/approve`, body),
      agent.call('POST', `${path}/cancel`, {}),
    ])
    const codes = responses.filter(({ status }) => status !== 200).map((a) => [a.status, a.body.error.code])
    // A cancellation may follow an approval: nothing was signed yet.
    t.ok(codes.length >= 2 && codes.length <= 3)
    t.ok(codes.every(([status, code]) => status === 409 && code === 'APPROVAL_RESOLVED'))
    if (shown(vault, id).status === 'approved') await agent.call('POST', `${path}/cancel`, {})
    t.equal(reserved(vault), 0, 'and what was held back is free again')
  }
})

t.test('a decision names what was shown, or it is none', async (t) => {
  const { vault, agent } = await startWithAgent(t)
  const [one, two] = [(await ask(agent, 1)).body.approval_id, (await ask(agent, 2)).body.approval_id]
  const wrong = await approve(vault, one, shown(vault, two).decision_hash)
  t.match([wrong.status, wrong.body.error.code], [409, 'APPROVAL_RESOLVED'])
  const missing = await vault.asOwner('POST', `/v1/vault/approvals/${one}/approve`, {})
  t.match([missing.status, missing.body.error.code], [400, 'VALIDATION_ERROR'])
  t.equal(shown(vault, one).status, 'pending')
})

t.test('a refusal is one for whoever waits and for whoever comes back for the answer', async (t) => {
  const clock = createTestClock()
  const { vault, agent } = await startWithAgent(t, { clock })
  const keyed = { ...noWait, 'idempotency-key': 'one-purchase' }
  for (const headers of [noWait, keyed]) {
    const { approval_id: id } = (await ask(agent, 0, headers)).body
    const waiting = ask(agent, 0, { ...headers, prefer: 'wait=25' })
    await vault.asOwner('POST', `/v1/vault/approvals/${id}/deny`, {})
    const refused = {
      status: 403,
      body: { error: { code: 'APPROVAL_DENIED', details: { approval_id: id } } },
    }
    t.match(await waiting, refused)
    t.match(await ask(agent, 0, headers), refused, 'the owner is not asked once more')
  }
  t.equal(vault.api.approvals.list(vault.owner).approvals.length, 2)
  t.equal(reserved(vault), 0)
  clock.advance(300_000)
  t.equal((await ask(agent)).status, 202, 'after five minutes the owner may be asked again')
  t.equal((await ask(agent, 0, keyed)).status, 403, 'but not under the same key')
})

t.test('nobody but the owner decides, and an agent sees its own questions only', async (t) => {
  const { vault, agent } = await startWithAgent(t)
  const other = await vault.agent('other', ['wallet.base'])
  const { approval_id: id } = (await ask(agent)).body
  const path = `/v1/vault/approvals/${id}`
  const body = { decision_hash: shown(vault, id).decision_hash }
  for (const [call, code] of [
    [agent.call('POST', `${path}/approve`, body), 'OWNER_REQUIRED'],
    [agent.call('POST', `${path}/deny`, {}), 'OWNER_REQUIRED'],
    [vault.call('POST', `${path}/approve`, body), 'UNAUTHORIZED'],
    [other.call('GET', path), 'NOT_FOUND'],
    [other.call('POST', `${path}/cancel`, {}), 'NOT_FOUND'],
  ] as const)
    t.equal((await call).body.error.code, code)
  t.strictSame((await other.call('GET', '/v1/vault/approvals')).body, { approvals: [] })
  t.equal(shown(vault, id).status, 'pending')
  const relay = vault.api.approvals.approve(id, body.decision_hash, {
    caller: { kind: 'owner', via: 'relay' },
    requestId: 'x',
  })
  await t.rejects(relay, { code: 'OWNER_REQUIRED' }, "the owner's credential does not count over the relay")
})

t.test('after five minutes it is too late, and the money is free', async (t) => {
  const clock = createTestClock()
  const { vault, agent } = await startWithAgent(t, { clock })
  const { approval_id: id, expires_at } = (await ask(agent)).body
  t.equal(Date.parse(expires_at) - clock.now(), 300_000)
  clock.advance(300_000)
  const late = await approve(vault, id)
  t.match([late.status, late.body.error.code], [410, 'APPROVAL_EXPIRED'])
  t.equal(reserved(vault), 0)
  t.not((await ask(agent)).body.approval_id, id, 'asked anew')
})

t.test('what was approved and not fetched in five minutes is over, too', async (t) => {
  const clock = createTestClock()
  const { vault, agent } = await startWithAgent(t, { clock })
  const { approval_id: id } = (await ask(agent)).body
  await approve(vault, id)
  clock.advance(300_000)
  const again = await ask(agent)
  t.equal(again.status, 202)
  t.not(again.body.approval_id, id)
})

t.test('a value that the owner wants to be asked for is given once an answer', async (t) => {
  const { vault, agent } = await startWithAgent(t)
  await vault.asOwner('POST', '/v1/vault/write', { scope: 'identity.email', value: 'a@b.c' })
  const read = () =>
    agent.call('POST', '/v1/vault/read', { scope: 'identity.email', agent_name: 'x' }, noWait)
  const { approval_id: id } = (await read()).body
  await approve(vault, id)
  t.strictSame((await read()).body, { value: 'a@b.c' })
  t.equal((await read()).status, 202, 'the next one is another question')
})

t.test('one agent can not bury the owner under questions', async (t) => {
  const { agent, vault } = await startWithAgent(t)
  await vault.api.policies.set(
    'payer',
    {
      ...smallPayments,
      assets: [{ chain: 'base', symbol: 'USDC', perTransaction: '5', perDay: '500', autoApproveUpTo: '1' }],
      fees: [{ chain: 'base', perDay: '1' }],
    },
    vault.owner,
  )
  const responses = await Promise.all(Array.from({ length: 25 }, (_, nonce) => ask(agent, nonce)))
  t.equal(responses.filter(({ status }) => status === 202).length, 20)
  const refused = responses.filter(({ status }) => status !== 202)
  t.ok(refused.every(({ status, headers }) => status === 429 && Number(headers['retry-after']) > 0))
})

t.test('questions, answers and held money are there after the vault was closed', async (t) => {
  const clock = createTestClock()
  const { vault, agent } = await startWithAgent(t, { clock })
  const open = (await ask(agent, 1)).body.approval_id
  const approved = (await ask(agent, 2)).body.approval_id
  const denied = (await ask(agent, 3)).body.approval_id
  await approve(vault, approved)
  await vault.asOwner('POST', `/v1/vault/approvals/${denied}/deny`, {})
  const held = reserved(vault)
  await vault.close()

  const again = await startVault(t, { clock, home: vault.home })
  t.strictSame(
    [open, approved, denied].map((id) => shown(again, id).status),
    ['pending', 'approved', 'denied'],
  )
  t.equal(reserved(again), held)
  const caller = { authorization: `Bearer ${agent.token}`, ...noWait }
  const signed = await again.call('POST', '/v1/vault/sign', signBody('2', 2), caller)
  t.equal(signed.status, 200)
  t.equal((await again.call('POST', '/v1/vault/sign', signBody('2', 1), caller)).body.approval_id, open)
  t.equal(spent(again), '2000000')
})

t.test('a locked vault keeps its questions and gives no answers', async (t) => {
  const { vault, agent } = await startWithAgent(t)
  const { approval_id: id } = (await ask(agent)).body
  const hash = shown(vault, id).decision_hash
  await vault.asOwner('POST', '/v1/vault/lock', {})
  t.match((await ask(agent)).body.error.code, 'VAULT_LOCKED')
  t.match((await approve(vault, id, hash)).body.error.code, 'VAULT_LOCKED')
  await vault.api.unlock('correct horse battery staple', vault.owner)
  t.equal((await approve(vault, id, hash)).status, 200)
  t.equal((await ask(agent)).status, 200)
})
