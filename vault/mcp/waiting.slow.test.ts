import { ElicitRequestSchema, type Progress } from '@modelcontextprotocol/sdk/types.js'
import t from 'tap'
import { openApprovals } from '../../test/helpers/vault/mcp/openApprovals.ts'
import { initialize, messagesOf, type RunningMcp, startMcp } from '../../test/helpers/vault/mcp/startMcp.ts'
import { until } from '../../test/helpers/vault/mcp/until.ts'

const scope = 'identity.name'

async function start(t: Parameters<typeof startMcp>[0]) {
  const mcp = await startMcp(t)
  const agent = await mcp.vault.agent('a', ['ask:identity.name'])
  await mcp.vault.asOwner('POST', '/v1/vault/write', { scope, value: 'Ada' })
  const approve = async () => {
    const [pendingApproval] = await openApprovals(mcp.vault)
    await mcp.vault.api.approvals.approve(
      pendingApproval!.id,
      pendingApproval!.decision_hash,
      mcp.vault.owner,
    )
  }
  return { ...mcp, agent, approve }
}

const read = (id: number, wait_seconds: number, more: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name: 'vault_read', arguments: { scope, wait_seconds }, ...more },
})

async function begin(mcp: RunningMcp, token: string): Promise<string> {
  const response = await mcp.send({ token, body: initialize() })
  await response.text()
  return response.headers.get('mcp-session-id')!
}

/** Records each response of the vault's API to a read, including those that no client receives any more. */
function responsesOf({ vault }: RunningMcp): { status: number }[] {
  const { request } = vault.api
  const responses: { status: number }[] = []
  vault.api.request = async (...args) => {
    const response = await request(...args)
    responses.push(response)
    return response
  }
  return responses
}

t.test(
  'while the owner thinks, a client that asked to hear of it is told, then gets the answer',
  async (t) => {
    const mcp = await start(t)
    const { call } = await mcp.connect(mcp.agent)
    const received = Promise.withResolvers<Progress>()
    const result = call('vault_read', { scope, wait_seconds: 120 }, { onprogress: received.resolve })
    t.match(await received.promise, { progress: 0, total: 120, message: /Waiting for the owner \(apr_/ })
    await mcp.approve()
    t.strictSame((await result).structuredContent, { value: 'Ada' })
  },
)

t.test('no progress without a token for it, nor where nobody waits', async (t) => {
  const mcp = await start(t)
  const { token } = mcp.agent
  const session = await begin(mcp, token)
  const waiting = mcp.send({ token, session, body: read(1, 120) })
  await mcp.approve()
  const messages = await messagesOf(await waiting)
  t.match(messages, [{ id: 1, result: { structuredContent: { value: 'Ada' } } }])
  const _meta = { progressToken: 'p' }
  const atOnce = await messagesOf(await mcp.send({ token, session, body: read(2, 0, { _meta }) }))
  t.match(atOnce, [{ id: 2, result: { structuredContent: { status: 'pending' } } }])
})

t.test('a cancelled call waits no longer: its stream ends, its question stays', async (t) => {
  const mcp = await start(t)
  const { token } = mcp.agent
  const session = await begin(mcp, token)
  const responses = responsesOf(mcp)
  const waiting = mcp.send({ token, session, body: read(7, 120) })
  const [pendingApproval] = await openApprovals(mcp.vault)
  const taken = await mcp.send({ token, session, body: read(7, 0) })
  t.equal(taken.status, 400, 'the id is under way')
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }
  t.equal((await mcp.send({ token, session, body: cancel })).status, 202)
  t.equal(await (await waiting).text(), '', 'nothing is answered')
  await until(() => responses.length === 1)
  t.equal(responses[0]!.status, 202, 'the wait ended')
  t.equal(mcp.vault.api.approvals.get(pendingApproval!.id, mcp.vault.owner).status, 'pending')
  await mcp.approve()
  const [again] = await messagesOf(await mcp.send({ token, session, body: read(7, 0) }))
  t.match(again.result.structuredContent, { value: 'Ada' }, 'the same call joins the same question')
})

t.test('one cancelled call of a batch leaves the others their answers', async (t) => {
  const mcp = await start(t)
  const { token } = mcp.agent
  const session = await begin(mcp, token)
  const body = [read(1, 120), { jsonrpc: '2.0', id: 2, method: 'ping' }]
  const waiting = mcp.send({ token, session, body })
  await openApprovals(mcp.vault)
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
  await mcp.send({ token, session, body: cancel })
  const messages = await messagesOf(await waiting)
  t.match(
    messages.find(({ id }) => id === 2),
    { result: {} },
  )
  t.match(
    messages.find(({ id }) => id === 1),
    { error: { message: /cancelled/ } },
  )
})

t.test('when the client has gone, nobody waits in its place', async (t) => {
  const mcp = await start(t)
  const { token } = mcp.agent
  const session = await begin(mcp, token)
  const responses = responsesOf(mcp)
  const client = new AbortController()
  const waiting = mcp.send({ token, session, body: read(1, 120), signal: client.signal })
  await openApprovals(mcp.vault)
  client.abort()
  await waiting.then((response) => response.text()).catch(() => undefined)
  await until(() => responses.length === 1)
  t.equal(responses[0]!.status, 202)
  await mcp.approve()
  const [again] = await messagesOf(await mcp.send({ token, session, body: read(1, 0) }))
  t.match(again.result.structuredContent, { value: 'Ada' }, 'the session and the id are usable again')
})

t.test('a call through the SDK’s client that is aborted leaves the session as it was', async (t) => {
  const mcp = await start(t)
  const { call } = await mcp.connect(mcp.agent)
  const responses = responsesOf(mcp)
  const abort = new AbortController()
  const waiting = call('vault_read', { scope, wait_seconds: 120 }, { signal: abort.signal })
  await openApprovals(mcp.vault)
  abort.abort()
  await t.rejects(waiting)
  await until(() => responses.length === 1)
  await mcp.approve()
  t.strictSame((await call('vault_read', { scope })).structuredContent, { value: 'Ada' })
})

t.test('a client that answers questions for its user is never asked to approve', async (t) => {
  const mcp = await start(t)
  const { client, call } = await mcp.connect(mcp.agent, { elicitation: {} })
  let elicited = 0
  client.setRequestHandler(ElicitRequestSchema, () => {
    elicited++
    return { action: 'accept', content: { approve: true } }
  })
  const asked = (await call('vault_read', { scope, wait_seconds: 1 })).structuredContent
  t.equal(asked.status, 'pending')
  // A message that a client sends on its own is no approval either.
  await client.notification({ method: 'notifications/elicitation/complete' as never, params: {} as never })
  await mcp.send({
    token: mcp.agent.token,
    session: await begin(mcp, mcp.agent.token),
    body: { jsonrpc: '2.0', id: 0, result: { action: 'accept', content: { approve: true } } },
  })
  t.equal(elicited, 0)
  t.equal(mcp.vault.api.approvals.get(asked.approval_id, mcp.vault.owner).status, 'pending')
})

t.test('an agent that is revoked while it waits gets nothing', async (t) => {
  const mcp = await start(t)
  const { token, id } = mcp.agent
  const session = await begin(mcp, token)
  const responses = responsesOf(mcp)
  const waiting = mcp.send({ token, session, body: read(1, 120) })
  const [pendingApproval] = await openApprovals(mcp.vault)
  await mcp.vault.api.agents.revoke(id, mcp.vault.owner)
  t.notMatch(await (await waiting).text(), 'Ada')
  t.strictSame(
    responses.filter(({ status }) => status === 200),
    [],
  )
  t.equal(mcp.vault.api.approvals.get(pendingApproval!.id, mcp.vault.owner).status, 'canceled')
  t.equal(mcp.mount.sessionCount, 0)
})
