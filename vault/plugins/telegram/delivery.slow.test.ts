import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createEgress } from '../../../adapters/egress/egress.ts'
import type { VaultPorts } from '../../../core/plugin/vault.ts'
import type { Log } from '../../../core/ports/log.ts'
import { ownerId, startBotApi, token } from '../../../test/helpers/vault/plugins/telegram/botApi.ts'
import {
  endedCleanly,
  type Options,
  openIds,
  optionsFor,
  startWorld,
} from '../../../test/helpers/vault/plugins/telegram/world.ts'
import { createTestClock, password } from '../../../test/helpers/vault/startVault.ts'
import telegram from './index.ts'

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

t.test('the token comes from the environment or from a file that no other user may read', async (t) => {
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
