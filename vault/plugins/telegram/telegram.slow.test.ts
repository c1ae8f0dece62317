import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { createEgress } from '../../../adapters/egress/egress.ts'
import { shortHash, type VaultPorts } from '../../../core/plugin/vault.ts'
import type { Log } from '../../../core/ports/log.ts'
import {
  type BotApi,
  ownerId,
  startBotApi,
  token,
} from '../../../test/helpers/vault/plugins/telegram/botApi.ts'
import {
  createTestClock,
  password,
  type RunningVault,
  startVault,
} from '../../../test/helpers/vault/startVault.ts'
import { signBody } from '../../../test/helpers/vault/transfers.ts'
import { builtInPlugin } from '../../sandbox/findPlugin.ts'
import telegram from './index.ts'

// A vault and a process of the channel for each test.

type Options = Parameters<typeof telegram.setup>[0]

/** What the loader makes of a minimal configuration. */
const optionsFor = (api: Pick<BotApi, 'url'>, change: Partial<Options> = {}): Options => ({
  botToken: token,
  chatId: ownerId,
  userIds: [],
  lockNotices: true,
  apiRoot: api.url,
  pollSeconds: 25,
  timeoutMs: 10_000,
  retryMinMs: 1,
  retryMaxMs: 20,
  ...change,
})

interface World {
  readonly api: BotApi
  vault: RunningVault
  /** All log lines, as one text. */
  logged(): string
  /** An agent requests a signature and waits; the response comes when the owner has decided. */
  ask(nonce?: number, headers?: Record<string, string>): ReturnType<RunningVault['call']>
  /** The same, once its approval is in the chat. */
  requests(nonce?: number): Promise<{ response: ReturnType<RunningVault['call']>; id: string }>
  restart(options?: { withoutChat?: boolean }): Promise<void>
  readonly clock: ReturnType<typeof createTestClock>
}

async function startWorld(t: Test, change: Partial<Options> = {}, api?: BotApi): Promise<World> {
  const bot = api ?? (await startBotApi(t))
  const lines: unknown[] = []
  const note = (fields: unknown, text?: unknown) => void lines.push([fields, text])
  const log = { debug: note, info: note, warn: note, error: note } as unknown as Log
  const clock = createTestClock()
  // Short: the path of the owner's socket is in it.
  const home = join(mkdtempSync(join(tmpdir(), 'tg-')), 'home')
  t.teardown(() => rmSync(dirname(home), { recursive: true, force: true }))
  const start = async (withoutChat = false) => {
    const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'] })
    const plugins = withoutChat ? [] : [{ plugin: builtInPlugin(telegram), options: optionsFor(bot, change) }]
    const vault = await startVault(t, { home, clock, log, plugins, egress: () => egress })
    t.teardown(() => egress.close())
    return vault
  }
  let bearer = ''
  const world: World = {
    api: bot,
    clock,
    vault: await start(),
    logged: () => lines.map((line) => JSON.stringify(line)).join('\n'),
    ask: (nonce = 0, headers = { prefer: 'wait=100' }) =>
      world.vault.call('POST', '/v1/vault/sign', signBody('3', nonce), {
        authorization: `Bearer ${bearer}`,
        ...headers,
      }),
    async requests(nonce = 0) {
      const before = bot.messages.length
      const response = world.ask(nonce)
      await bot.until(() => bot.messages.length > before)
      return { response, id: (await openIds(world)).at(0)! }
    },
    async restart({ withoutChat = false } = {}) {
      await world.vault.close()
      world.vault = await start(withoutChat)
    },
  }
  bearer = (await world.vault.agent('shopper', ['wallet.base'])).token
  return world
}

const openIds = async ({ vault }: World): Promise<string[]> => {
  const { body } = await vault.asOwner('GET', '/v1/vault/approvals?status=pending')
  return body.approvals.map(({ id }: { id: string }) => id)
}

/** Closes the vault and searches everything that was written for the token. */
async function endedCleanly(t: Test, { vault, logged }: World): Promise<void> {
  await vault.close()
  t.notMatch(logged(), token.slice(-20), 'the token is in no log')
  t.notMatch(logged(), '"error"', 'nothing unexpected was thrown')
}

t.test('a question stands in the chat in plain words, and Approve signs exactly that', async (t) => {
  const world = await startWorld(t)
  const { response, id } = await world.requests()
  const { api, vault } = world
  const [message] = api.messages
  const { body: approval } = await vault.asOwner('GET', `/v1/vault/approvals/${id}`)
  for (const shown of [
    'Approval requested',
    'shopper',
    '3 USDC',
    approval.recipient,
    'base',
    ...approval.effects,
    ...approval.reasons,
    shortHash(approval.decision_hash),
    approval.expires_at.slice(11, 19),
  ])
    t.ok(message!.text.includes(shown), shown)
  t.equal(message!.chatId, ownerId)
  t.strictSame(
    message!.buttons.map(({ text }) => text),
    ['✅ Approve', '⛔ Deny'],
  )
  t.equal(await api.answered(api.press('Approve')), 'Approved.')
  const signed = await response
  t.equal(signed.status, 200)
  t.match(signed.body.signed_tx, /^0x/)
  await api.until(() => message!.text.includes('Approved and done'))
  t.ok(message!.text.includes(`telegram user ${ownerId}`))
  t.strictSame(message!.buttons, [])
  const { body } = await vault.asOwner('GET', `/v1/vault/approvals/${id}`)
  t.match(body, { status: 'consumed', decided_by: `telegram user ${ownerId}` })
  t.equal(api.callsOf('sendMessage').length, 1)
  await endedCleanly(t, world)
})

t.test('Deny refuses, and the message says so', async (t) => {
  const world = await startWorld(t)
  const { response } = await world.requests()
  t.equal(await world.api.answered(world.api.press('Deny')), 'Denied.')
  t.match(await response, { status: 403, body: { error: { code: 'APPROVAL_DENIED' } } })
  await world.api.until(() => world.api.messages[0]!.text.includes('Denied'))
  await endedCleanly(t, world)
})

t.test('nobody else may answer: not from another chat, not as another user', async (t) => {
  const world = await startWorld(t)
  const { api } = world
  const { response, id } = await world.requests()
  const [message] = api.messages
  const strangers = [
    { chatId: 666, from: 666 },
    { chatId: 666, from: ownerId },
    { chatId: ownerId, from: 666 },
    { chatId: -ownerId, from: ownerId },
  ]
  for (const stranger of strangers)
    t.equal(
      await api.answered(api.press('Approve', { message: message!, ...stranger })),
      'You may not decide this request.',
    )
  api.write('/status', { from: 667 })
  await api.until(() => /"userId":667/.test(world.logged()))
  t.strictSame(await openIds(world), [id])
  t.match(world.logged(), /"chatId":666,"userId":666.*refused/)
  t.equal(api.messages.length, 1, 'and strangers are told nothing')
  t.equal(await api.answered(api.press('Deny')), 'Denied.', 'the owner still may')
  t.equal((await response).status, 403)
  await endedCleanly(t, world)
})

t.test('in a group only the named users may answer, and without names there is no start', async (t) => {
  const api = await startBotApi(t)
  const group = -1_001_234_567_890
  const env = { ports: {} } as Parameters<typeof telegram.setup>[1]
  t.throws(() => telegram.setup(optionsFor(api, { chatId: group }), env), { message: /userIds/ })
  const world = await startWorld(t, { chatId: group, userIds: [7, 8] }, api)
  const { response } = await world.requests()
  t.equal(await api.answered(api.press('Approve', { from: 9 })), 'You may not decide this request.')
  t.equal(await api.answered(api.press('Approve', { from: 8 })), 'Approved.')
  t.equal((await response).status, 200)
  await endedCleanly(t, world)
})

t.test('what is decided elsewhere is edited, and a late press says who was first', async (t) => {
  const world = await startWorld(t)
  const { api, vault } = world
  const { response, id } = await world.requests()
  const [message] = api.messages
  const approve = message!.buttons[0]!.callback_data
  const { body: shown } = await vault.asOwner('GET', `/v1/vault/approvals/${id}`)
  await vault.asOwner('POST', `/v1/vault/approvals/${id}/approve`, { decision_hash: shown.decision_hash })
  t.equal((await response).status, 200)
  await api.until(() => message!.text.includes('Approved and done'))
  t.strictSame(message!.buttons, [])
  t.equal(await api.answered(api.press('Approve', { data: approve })), 'Already approved by owner.')

  const second = await world.requests(1)
  const cancel = api.messages[1]!.buttons[1]!.callback_data
  await vault.asOwner('POST', `/v1/vault/approvals/${second.id}/cancel`, {})
  await second.response
  await api.until(() => api.messages[1]!.text.includes('Canceled'))
  t.match(
    await api.answered(api.press('Deny', { data: cancel, message: api.messages[1]! })),
    /^Already canceled/,
  )
  await endedCleanly(t, world)
})

t.test('a press is bound to what its own message showed', async (t) => {
  const world = await startWorld(t)
  const { api } = world
  const { response, id } = await world.requests()
  const hash = Buffer.alloc(32, 7)
  for (const verb of ['y', 'n'])
    t.match(
      await api.answered(api.press('Approve', { data: `${verb}${id}${hash.toString('base64url')}` })),
      /Nothing was decided/,
    )
  for (const data of [
    '',
    'y',
    'approve',
    `y${'x'.repeat(60)}`,
    `z${id}${hash.toString('base64url')}`,
    '{"id":1}',
  ])
    t.match(
      await api.answered(api.press('Approve', { data })),
      /no such button|no longer has this approval/,
      data,
    )
  t.strictSame(await openIds(world), [id])
  await api.answered(api.press('Deny'))
  t.equal((await response).status, 403)
  await endedCleanly(t, world)
})

t.test('what could not be read completely can be denied in the chat, and not approved', async (t) => {
  const world = await startWorld(t)
  const { api, vault } = world
  const { token: bearer } = await vault.agent('bot', ['wallet.base'])
  const body = { chain: 'base', message: '0xff00fe01', encoding: 'hex', agent_name: 'bot' }
  const headers = { authorization: `Bearer ${bearer}`, prefer: 'wait=0' }
  const pendingApproval = await vault.call('POST', '/v1/vault/sign-message', body, headers)
  t.equal(pendingApproval.status, 202, JSON.stringify(pendingApproval.body))
  await api.until(() => api.messages.length === 1)
  const [message] = api.messages
  t.match(message!.text, 'Not fully decoded')
  t.strictSame(
    message!.buttons.map(({ text }) => text),
    ['⛔ Deny'],
  )
  const forged = `y${message!.buttons[0]!.callback_data.slice(1)}`
  t.match(await api.answered(api.press('Approve', { data: forged })), 'on the page or in a terminal')
  t.equal((await openIds(world)).length, 1)
  t.equal(await api.answered(api.press('Deny')), 'Denied.')
  await endedCleanly(t, world)
})

t.test(
  'the chat can hand out a stored value that it does not show, and can only deny to replace it',
  async (t) => {
    const world = await startWorld(t)
    const { api, vault } = world
    const scope = 'credentials.api.shop'
    const secret = 'a-secret-of-the-shop'
    await vault.asOwner('POST', '/v1/vault/write', { scope, value: secret })
    const { token: bearer } = await vault.agent('bot', [`read:${scope}`, `write:${scope}`])
    const headers = { authorization: `Bearer ${bearer}`, prefer: 'wait=0' }
    const read = () => vault.call('POST', '/v1/vault/read', { scope, agent_name: 'bot' }, headers)
    t.equal((await read()).status, 202)
    await api.until(() => api.messages.length === 1)
    t.match(api.messages[0]!.text, `Scope: ${scope}`)
    t.equal(await api.answered(api.press('Approve')), 'Approved.')
    t.match(await read(), { status: 200, body: { value: secret } })

    const body = { scope, value: 'another', agent_name: 'bot' }
    t.equal((await vault.call('POST', '/v1/vault/write', body, headers)).status, 202)
    await api.until(() => api.messages.length === 2)
    t.strictSame(
      api.messages[1]!.buttons.map(({ text }) => text),
      ['⛔ Deny'],
    )
    for (const { text } of api.messages) t.notMatch(text, new RegExp(`${secret}|another`))
    await endedCleanly(t, world)
  },
)

t.test('after its time a question can not be answered, and the message says so', async (t) => {
  const world = await startWorld(t)
  const { response } = await world.requests()
  world.clock.advance(300_000)
  t.match(await world.api.answered(world.api.press('Approve')), /has expired/)
  t.equal((await response).status, 410)
  await world.api.until(() => world.api.messages[0]!.text.includes('Expired'))
  await endedCleanly(t, world)
})

t.test("an agent's text is text: no markup, no link, no line of its own, nothing invisible", async (t) => {
  const world = await startWorld(t)
  const { api, vault } = world
  const evil =
    '</code><b>hi</b> [x](https://evil.example) *b* _i_ @admin /status https://evil.example \u202eevil\u0007\r\nDecision: 0000 0000\u2028✅ Approved'
  const { token: bearer } = await vault.agent('bot', ['wallet.base'])
  const body = { chain: 'base', message: evil, agent_name: evil, purpose: evil }
  const headers = { authorization: `Bearer ${bearer}`, prefer: 'wait=0' }
  t.equal((await vault.call('POST', '/v1/vault/sign-message', body, headers)).status, 202)
  await api.until(() => api.messages.length === 1)
  const [{ text, entities }] = api.messages as [BotApi['messages'][0]]
  t.notMatch(text, /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
  t.equal(text.split('\n').filter((line) => line.startsWith('Decision')).length, 1)
  const inCode = (at: number) =>
    entities.some(({ type, offset, length }) => type !== 'bold' && at >= offset && at < offset + length)
  for (const part of ['<b>', '[x]', 'https://evil.example', '@admin', '/status']) {
    let seen = 0
    for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1), seen++)
      t.ok(inCode(at), `${part} at ${at}`)
    t.ok(seen >= 2, `${part} stands there in the purpose and in the message`)
  }
  await endedCleanly(t, world)
})

t.test(
  'a group that was upgraded is followed: what is open is asked in the new chat, also after a restart',
  async (t) => {
    const api = await startBotApi(t)
    const [group, supergroup] = [-100, -1_001_557_912_345]
    const world = await startWorld(t, { chatId: group, userIds: [ownerId] }, api)
    const first = await world.requests(1)
    api.upgrade(group, supergroup)
    const second = world.ask(2, { prefer: 'wait=0' })
    await api.until(() => api.messages.filter(({ chatId }) => chatId === supergroup).length === 2)
    const [old] = api.messages
    t.equal(await api.answered(api.press('Approve', { message: old! })), 'Approved.', 'the old button, too')
    t.equal((await first.response).status, 200)
    t.equal((await second).status, 202)
    await world.restart()
    const third = await world.requests(3)
    t.equal(api.messages.at(-1)!.chatId, supergroup)
    const tries = api.callsOf('sendMessage').filter(({ body }) => body.chat_id === group)
    t.equal(tries.length, 2, 'the old chat is asked no more')
    t.equal(await api.answered(api.press('Deny', { message: api.messages.at(-1)! })), 'Denied.')
    t.equal((await third.response).status, 403)
    await endedCleanly(t, world)
  },
)

t.test(
  'a question that the chat refuses is said in the status, and shown as soon as it can be',
  async (t) => {
    const world = await startWorld(t)
    const { api } = world
    const warnings = async () => (await world.vault.asOwner('GET', '/v1/vault/status')).body.warnings
    let nonce = 1
    for (const [status, description, words] of [
      [400, 'Bad Request: TOPIC_CLOSED', /topic General.*closed/],
      [400, 'Bad Request: not enough rights to send text messages to the chat', /Allow the bot to send/],
      [400, 'Bad Request: chat not found', /not in the chat/],
      [403, 'Forbidden: bot was blocked by the user', /blocked the bot/],
      [403, 'Forbidden: bot was kicked from the supergroup chat', /not in the chat/],
      [403, 'Forbidden: something that no one has seen before', /refused the message/],
    ] as const) {
      const refused = { status, description }
      api.fail('sendMessage', ...Array.from({ length: 12 }, () => refused))
      const before = api.messages.length
      const calls = api.callsOf('sendMessage').length
      const response = world.ask(nonce++)
      await api.until(() => api.callsOf('sendMessage').length >= calls + 3)
      t.match(await warnings(), [{ code: 'CHANNEL_TROUBLE', message: words }], description)
      await api.until(() => api.messages.length > before)
      t.equal(await api.answered(api.press('Deny', { message: api.messages.at(-1)! })), 'Denied.')
      await response
      t.strictSame(await warnings(), [])
    }
    await endedCleanly(t, world)
  },
)

t.test('the Bot API may refuse, fail or hang up: the question arrives once', async (t) => {
  const world = await startWorld(t)
  const { api } = world
  api.fail('sendMessage', { status: 500, description: 'Internal Server Error' }, 'not-json', 'hang-up', {
    status: 429,
    description: 'Too Many Requests: retry after 1',
    retryAfter: 1,
  })
  api.fail('getUpdates', { status: 502, description: 'Bad Gateway' }, 'hang-up', 'not-json')
  const { response } = await world.requests()
  const tries = api.callsOf('sendMessage')
  t.equal(tries.length, 5)
  t.ok(tries[4]!.atMs - tries[3]!.atMs >= 990, 'it waits as long as it is asked to')
  t.equal(api.messages.length, 1)
  t.equal(await api.answered(api.press('Approve')), 'Approved.')
  t.equal((await response).status, 200)
  await endedCleanly(t, world)
})

t.test('what is not answered in time is tried again', async (t) => {
  const world = await startWorld(t, { timeoutMs: 300, pollSeconds: 1 })
  const { api } = world
  api.fail('sendMessage', 'silence', 'silence')
  api.fail('getUpdates', 'silence')
  const { response } = await world.requests()
  t.equal(await api.answered(api.press('Approve')), 'Approved.')
  t.equal((await response).status, 200)
  await endedCleanly(t, world)
})

t.test('while Telegram is silent the vault answers, decides and closes as ever', async (t) => {
  const world = await startWorld(t, { timeoutMs: 60_000, pollSeconds: 50 })
  const { api, vault } = world
  api.fail('sendMessage', ...Array.from({ length: 50 }, () => 'silence' as const))
  t.equal((await world.ask(0, { prefer: 'wait=0' })).status, 202)
  await api.until(() => api.callsOf('sendMessage').length === 1)
  const [id] = await openIds(world)
  const { body: shown } = await vault.asOwner('GET', `/v1/vault/approvals/${id}`)
  await vault.asOwner('POST', `/v1/vault/approvals/${id}/approve`, { decision_hash: shown.decision_hash })
  t.equal((await world.ask()).status, 200)
  await endedCleanly(t, world)
})

t.test('a token that is wrong, or a place that may not be reached, is said without the token', async (t) => {
  const api = await startBotApi(t)
  const wrong = '110201543:BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB'
  const world = await startWorld(t, { botToken: wrong }, api)
  await api.until(() => api.callsOf('').length + api.callsOf('getUpdates').length >= 3)
  t.match(world.logged(), /Check the token/)
  t.equal(world.logged().match(/Check the token/g)?.length, 1, 'once, not with every try')
  await endedCleanly(t, world)
  t.notMatch(world.logged(), wrong.slice(12))

  const lines: string[] = []
  const note = (...line: unknown[]) => void lines.push(JSON.stringify(line))
  const log = { debug: note, info: note, warn: note, error: note } as unknown as Log
  const egress = createEgress({})
  t.teardown(() => egress.close())
  const { approvals, received } = emptyQueue(log, lines)
  const store = { read: () => undefined, write: async () => {} }
  const ports = { approvals, egress, store, log, clock: createTestClock() }
  const plugin = await telegram.setup(optionsFor(api), { ports })
  plugin.start?.()
  await received
  await plugin.close?.()
  t.match(lines.join('\n'), /not public.*pluginEgress/s)
  t.notMatch(lines.join('\n'), token.slice(12))
})

/** An approval queue without approvals, and a promise of the first log line. */
function emptyQueue(log: Log, lines: string[]) {
  const first = Promise.withResolvers<void>()
  const { warn } = log
  ;(log as { warn: unknown }).warn = (...args: Parameters<Log['warn']>) => {
    warn(...args)
    if (lines.length > 0) first.resolve()
  }
  const approvals: VaultPorts['approvals'] = {
    open: () => [],
    get: () => undefined,
    watch: () => () => {},
    watchLock: () => () => {},
    trouble: () => {},
    isLocked: () => false,
    approve: async () => {},
    deny: async () => {},
  }
  return { approvals, received: first.promise }
}

t.test('a restart asks nothing twice, and the old message still answers', async (t) => {
  const world = await startWorld(t)
  const { api } = world
  /** The channel was notified that this many messages arrived, and stored it. */
  const notified = async (count: number) => {
    while ((world.logged().match(/sent to the chat/g) ?? []).length < count) await new Promise(setImmediate)
  }
  t.equal((await world.ask(0, { prefer: 'wait=0' })).status, 202)
  await notified(1)
  await world.restart()
  const response = world.ask()
  t.equal(await api.answered(api.press('Approve')), 'Approved.')
  t.equal((await response).status, 200)
  await api.until(() => api.messages[0]!.text.includes('Approved and done'))
  t.equal(api.messages.length, 1)

  t.equal((await world.ask(1, { prefer: 'wait=0' })).status, 202)
  await notified(2)
  await world.restart({ withoutChat: true })
  const [id] = await openIds(world)
  await world.vault.asOwner('POST', `/v1/vault/approvals/${id}/deny`, {})
  t.equal((await world.ask(2, { prefer: 'wait=0' })).status, 202)
  await world.restart()
  await api.until(() => api.messages[1]!.text.includes('Denied') && api.messages.length === 3)
  t.match(api.messages[2]!.text, 'Approval requested', 'what was asked meanwhile is told now')
  await endedCleanly(t, world)
})

t.test('a locked vault says so once, answers nothing, and goes on after it is unlocked', async (t) => {
  const world = await startWorld(t)
  const { api, vault } = world
  t.equal((await world.ask(0, { prefer: 'wait=0' })).status, 202)
  await api.until(() => api.messages.length === 1)
  await vault.asOwner('POST', '/v1/vault/lock', {})
  await api.until(() => api.messages.length === 2)
  t.match(api.messages[1]!.text, 'The vault is locked')
  t.match(await api.answered(api.press('Approve')), 'The vault is locked')
  t.match(await api.answered(api.press('Approve')), 'The vault is locked')
  api.write('/status')
  await api.until(() => api.messages.length === 3)
  t.equal(api.messages[2]!.text, 'The vault is locked.')
  t.equal((await vault.asOwner('POST', '/v1/vault/unlock', { password })).status, 200)
  t.equal(await api.answered(api.press('Approve')), 'Approved.')
  t.equal((await world.ask()).status, 200)
  await api.until(() => api.messages[0]!.text.includes('Approved and done'))
  t.equal(api.messages.length, 3, 'one notice, and no question twice')
  api.write('/start@somebot')
  await api.until(() => api.messages.length === 4)
  t.match(api.messages[3]!.text, 'unlocked. No approvals are waiting')
  await endedCleanly(t, world)
})

t.test('the token comes from the environment or from a file that nobody else may read', async (t) => {
  const dir = t.testdir({})
  const file = join(dir, 'token')
  const env = { ports: {} } as Parameters<typeof telegram.setup>[1]
  const { botToken: _, ...without } = optionsFor({ url: 'http://127.0.0.1:9' })
  const setUp = (change: Partial<Options>) => () => telegram.setup({ ...without, ...change }, env)
  t.throws(setUp({}), { message: /exactly one of botToken and botTokenFile/ })
  t.throws(setUp({ botToken: token, botTokenFile: file }), { message: /exactly one/ })
  t.throws(setUp({ botTokenFile: file }), { message: /ENOENT/ })
  writeFileSync(file, 'my secret, not a token\n')
  chmodSync(file, 0o644)
  t.throws(setUp({ botTokenFile: file }), { message: /0600/ })
  chmodSync(file, 0o600)
  try {
    setUp({ botTokenFile: file })()
    t.fail('was taken')
  } catch (error) {
    t.match(String(error), /Expected the token/)
    t.notMatch(String(error), /secret/)
  }
  writeFileSync(file, `${token}\n`)
  t.doesNotThrow(setUp({ botTokenFile: file }))
})
