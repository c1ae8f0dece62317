import { EventEmitter, once } from 'node:events'
import t, { type Test } from 'tap'
import { createTestClock, type RunningVault, startVault } from '../../test/helpers/vault/startVault.ts'

const link = async (vault: RunningVault) =>
  new URL((await vault.asOwner('POST', '/v1/vault/owner/links', {})).body.url)
const codeOf = (url: URL) => url.hash.slice('#code='.length)
const signIn = (vault: RunningVault, code: unknown, headers = {}) =>
  vault.call('POST', '/v1/vault/owner/sign-in', { code }, headers)
const start = (t: Test, clock = createTestClock()) => startVault(t, { clock })

/** Receives the vault's events until the vault ends the stream. */
async function listen(vault: RunningVault, headers: Record<string, string>) {
  const { body } = await fetch(`${vault.url}/v1/vault/events`, { headers })
  const more = new EventEmitter()
  let text = ''
  const untilEnd = (async () => {
    try {
      for await (const chunk of body!) {
        text += Buffer.from(chunk).toString()
        more.emit('more')
      }
    } catch {
      // Cut off: this is how the vault ends it.
    }
    return text
  })()
  const received = async (part: string) => {
    while (!text.includes(part)) await once(more, 'more')
  }
  return { untilEnd, received }
}

t.test('a link opens the page once', async (t) => {
  const vault = await start(t)
  const url = await link(vault)
  t.equal(`${url.origin}${url.pathname}`, `${vault.url}/owner/`)
  t.equal(url.search, '', 'the code is in the fragment, which nobody is sent')
  const first = await signIn(vault, codeOf(url))
  t.equal(first.status, 201)
  const asOwner = { authorization: `Bearer ${first.body.token}` }
  t.equal((await vault.call('GET', '/v1/vault/agents', undefined, asOwner)).status, 200)
  const again = await signIn(vault, codeOf(url))
  t.match([again.status, again.body.error.code], [410, 'SIGN_IN_EXPIRED'])
})

t.test('of many who use one link at once, one is the owner', async (t) => {
  const vault = await start(t)
  const code = codeOf(await link(vault))
  const answers = await Promise.all(Array.from({ length: 20 }, () => signIn(vault, code)))
  t.equal(answers.filter(({ status }) => status === 201).length, 1)
})

t.test('a link is good for two minutes', async (t) => {
  const clock = createTestClock()
  const vault = await start(t, clock)
  const [early, late] = [await link(vault), await link(vault)]
  clock.advance(119_999)
  t.equal((await signIn(vault, codeOf(early))).status, 201)
  clock.advance(1)
  t.equal((await signIn(vault, codeOf(late))).status, 410)
})

t.test('the newest eight links are kept', async (t) => {
  const vault = await start(t)
  const links: URL[] = []
  for (let i = 0; i < 9; i++) links.push(await link(vault))
  t.equal((await signIn(vault, codeOf(links[0]!))).status, 410)
  t.equal((await signIn(vault, codeOf(links[1]!))).status, 201)
})

t.test('links are made on the socket alone, and codes are taken at the vault itself alone', async (t) => {
  const vault = await start(t)
  const agent = await vault.agent('a', [])
  const session = (await signIn(vault, codeOf(await link(vault)))).body.token
  const page = { authorization: `Bearer ${session}` }
  for (const answer of [
    await vault.call('POST', '/v1/vault/owner/links', {}),
    await vault.call('POST', '/v1/vault/owner/links', {}, page),
    await agent.call('POST', '/v1/vault/owner/links', {}),
  ])
    t.match(answer.status, /^40[13]$/)
  for (const via of ['relay', 'mcp', 'socket'] as const) {
    const code = codeOf(await link(vault))
    const context = { caller: { kind: 'anyone', via }, requestId: 'r' } as const
    await t.rejects(vault.api.page.signIn(code, context), { code: 'OWNER_REQUIRED' }, via)
    t.equal((await signIn(vault, code)).status, 201, 'and it was not used up by that')
  }
})

t.test('a page of another origin gets nothing for a code, and does not use it up', async (t) => {
  const vault = await start(t)
  const code = codeOf(await link(vault))
  for (const headers of [
    { origin: 'https://evil.example' },
    { 'sec-fetch-site': 'cross-site' },
    { host: 'evil.example' },
    { 'content-type': 'text/plain' },
  ])
    t.match((await signIn(vault, code, headers)).status, /^4(03|15)$/)
  t.equal((await signIn(vault, code)).status, 201)
})

t.test('anything but a good code is refused in the form of an error', async (t) => {
  const vault = await start(t)
  for (const code of [
    undefined,
    null,
    7,
    '',
    'x',
    'a'.repeat(129),
    {},
    ['x'],
    '\u0000',
    `vow_${'A'.repeat(43)}`,
  ]) {
    const { status, body } = await signIn(vault, code)
    t.match([status, typeof body.error.code], [/^4(00|10)$/, 'string'], JSON.stringify(code))
  }
})

t.test('signing out ends every session, every link and every stream', async (t) => {
  const vault = await start(t)
  const open = await link(vault)
  const tokens = [await link(vault), await link(vault)].map(
    async (url) => (await signIn(vault, codeOf(url))).body.token,
  )
  const [one, two] = (await Promise.all(tokens)).map((token) => ({ authorization: `Bearer ${token}` }))
  const stream = await listen(vault, two!)
  t.equal((await vault.call('DELETE', '/v1/vault/owner/sessions', undefined, one!)).status, 200)
  for (const headers of [one!, two!])
    t.equal((await vault.call('GET', '/v1/vault/agents', undefined, headers)).status, 401)
  t.equal((await signIn(vault, codeOf(open))).status, 410)
  const agent = await vault.agent('a', ['ask:identity.name'])
  await agent.call('POST', '/v1/vault/read', { scope: 'identity.name' }, { prefer: 'wait=0' })
  t.notMatch(await stream.untilEnd, 'approval', 'nothing was heard after the end')
})

t.test("an agent's stream ends with its token", async (t) => {
  const vault = await start(t)
  const agent = await vault.agent('a', ['ask:identity.name'])
  const stream = await listen(vault, { authorization: `Bearer ${agent.token}` })
  await agent.call('POST', '/v1/vault/read', { scope: 'identity.name' }, { prefer: 'wait=0' })
  await stream.received('"pending"')
  await vault.api.agents.revoke('a', vault.owner)
  const received = await stream.untilEnd
  t.notMatch(received, '"canceled"')
})

t.test('signing in and out is in the log, without a code', async (t) => {
  const vault = await start(t)
  const url = await link(vault)
  const { token } = (await signIn(vault, codeOf(url))).body
  await vault.call('DELETE', '/v1/vault/owner/sessions', undefined, { authorization: `Bearer ${token}` })
  const { events } = (await vault.asOwner('GET', '/v1/vault/activity')).body
  t.match(
    events.map((event: { details: { note: string } }) => event.details.note),
    ['every approvals page was signed out', 'the approvals page was opened'],
  )
  t.notMatch(JSON.stringify(events), codeOf(url))
})

t.test('assets that rules can name are listed for whoever the vault knows', async (t) => {
  const vault = await start(t)
  const agent = await vault.agent('a', [])
  const { assets } = (await agent.call('GET', '/v1/vault/assets')).body
  t.match(
    assets.find((one: { chain: string; symbol: string }) => one.chain === 'base' && one.symbol === 'USDC'),
    { decimals: 6, native: false, id: /^eip155:8453\/erc20:0x/ },
  )
  t.notOk(assets.some(({ chain }: { chain: string }) => chain === 'base-sepolia'))
  t.equal((await vault.call('GET', '/v1/vault/assets')).status, 401)
})
