import t from 'tap'
import { shortHash } from '../../../core/plugin/vault.ts'
import { type BotApi, ownerId, startBotApi } from '../../../test/helpers/vault/plugins/telegram/botApi.ts'
import {
  endedCleanly,
  openIds,
  optionsFor,
  startWorld,
} from '../../../test/helpers/vault/plugins/telegram/world.ts'
import telegram from './index.ts'

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
