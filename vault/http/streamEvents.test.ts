import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import t, { type Test } from 'tap'
import { until } from '../../test/helpers/rawHttp.ts'
import { type RunningVault, startVault } from '../../test/helpers/vault/startVault.ts'
import { signBody } from '../../test/helpers/vault/transfers.ts'

interface Stream {
  readonly status: number
  /** All events so far. */
  text(): string
  /** Fulfilled when the vault has ended the stream. */
  readonly closed: Promise<void>
  readonly isClosed: () => boolean
}

async function listen(t: Test, vault: RunningVault, token: string | undefined): Promise<Stream> {
  const path = '/v1/vault/events'
  const asking: ClientRequest =
    token === undefined
      ? request({ socketPath: vault.socketPath, path, agent: false })
      : request(`${vault.url}${path}`, { agent: false, headers: { authorization: `Bearer ${token}` } })
  t.teardown(() => asking.destroy())
  asking.on('error', () => {})
  asking.end()
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  let text = ''
  let isClosed = false
  response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  response.on('error', () => {})
  const closed = new Promise<void>((resolve) => {
    response.once('close', () => {
      isClosed = true
      resolve()
    })
  })
  return { status: response.statusCode!, text: () => text, closed, isClosed: () => isClosed }
}

const askAs = (agent: Awaited<ReturnType<RunningVault['agent']>>, nonce: number) =>
  agent.call('POST', '/v1/vault/sign', signBody('3', nonce), { prefer: 'wait=0' })

t.test('an agent hears of its own questions, the owner of all', async (t) => {
  const vault = await startVault(t)
  const [one, two] = [await vault.agent('one', ['wallet.base']), await vault.agent('two', ['wallet.base'])]
  const [ofOne, ofTwo, ofOwner] = [
    await listen(t, vault, one.token),
    await listen(t, vault, two.token),
    await listen(t, vault, undefined),
  ]
  const { body } = await askAs(one, 1)
  await until(() => ofOne.text().includes(body.approval_id) && ofOwner.text().includes(body.approval_id))
  const { body: second } = await askAs(two, 2)
  await until(() => ofTwo.text().includes(second.approval_id))
  t.notMatch(ofTwo.text(), body.approval_id)
  t.notMatch(ofOne.text(), second.approval_id)
  t.match(ofOwner.text(), /^event: approval\ndata: \{/)
})

t.test('the stream of an agent whose token ended is closed, and others go on', async (t) => {
  for (const verb of ['revoke', 'rotate'] as const) {
    const vault = await startVault(t)
    const [one, two] = [await vault.agent('one', ['wallet.base']), await vault.agent('two', ['wallet.base'])]
    const streams = [await listen(t, vault, one.token), await listen(t, vault, one.token)]
    const [ofTwo, ofOwner] = [await listen(t, vault, two.token), await listen(t, vault, undefined)]
    await askAs(one, 1)
    await vault.asOwner('POST', `/v1/vault/agents/one/${verb}`, {})
    for (const stream of streams) await stream.closed
    t.equal((await listen(t, vault, one.token)).status, 401, `${verb}: the old token opens no other`)
    const { body } = await askAs(two, 2)
    await until(() => ofTwo.text().includes(body.approval_id) && ofOwner.text().includes(body.approval_id))
    t.notOk(ofTwo.isClosed() || ofOwner.isClosed(), verb)
  }
})

t.test('an agent has eight streams at most, and those of others are not counted', async (t) => {
  const vault = await startVault(t)
  const [one, two] = [await vault.agent('one', ['wallet.base']), await vault.agent('two', ['wallet.base'])]
  const open = await Promise.all(Array.from({ length: 10 }, () => listen(t, vault, one.token)))
  t.strictSame(open.map(({ status }) => status).sort(), [...Array(8).fill(200), 429, 429])
  t.equal((await listen(t, vault, two.token)).status, 200)
  t.equal((await listen(t, vault, undefined)).status, 200)
  const { token } = (await vault.asOwner('POST', '/v1/vault/agents/one/rotate', {})).body
  await Promise.all(open.map((stream) => stream.closed))
  t.equal((await listen(t, vault, token)).status, 200, 'what is closed makes room')
})

t.test('the stream of a page that was signed out says nothing more', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('one', ['wallet.base'])
  const page = await listen(t, vault, vault.api.createOwnerSession(vault.owner).token)
  t.equal(page.status, 200)
  vault.api.sessions.endAll()
  const { body } = await askAs(agent, 1)
  await page.closed
  t.notMatch(page.text(), body.approval_id)
})

t.test('nobody listens without a credential, and a locked vault still says so', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('one', ['wallet.base'])
  t.equal((await listen(t, vault, `vat_${'A'.repeat(43)}`)).status, 401)
  t.equal((await vault.call('GET', '/v1/vault/events')).status, 401)
  const stream = await listen(t, vault, agent.token)
  await vault.api.lock(vault.owner)
  await until(() => stream.text().includes('event: locked'))
  t.match(stream.text(), '"reason":"owner"')
})
