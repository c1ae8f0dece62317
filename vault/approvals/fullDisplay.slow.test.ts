import { createHash } from 'node:crypto'
import t from 'tap'
import { serializeTransaction } from 'viem'
import { type RunningVault, startVault, type TestAgent } from '../../test/helpers/vault/startVault.ts'
import { payee, smallPayments, usdcOnBase } from '../../test/helpers/vault/transfers.ts'
import type { ApprovalView } from './approval.ts'

const noWait = { prefer: 'wait=0' }
const ours = '0x9858EfFD232B4033E47d90003D41EC34EcaEda94'

async function start(t: Parameters<typeof startVault>[0]) {
  const vault = await startVault(t)
  const agent = await vault.agent('asker', [
    'wallet.base',
    'wallet.solana',
    'ask:write:identity.*',
    'ask:write:credentials.api.shop',
    'ask:call:credentials.api.shop',
  ])
  return { vault, agent }
}

async function cardOf(vault: RunningVault, agent: TestAgent, path: string, body: object) {
  const { status, body: response } = await agent.call('POST', `/v1/vault/${path}`, body, noWait)
  if (status !== 202) throw new Error(JSON.stringify(response))
  return vault.api.approvals.get(response.approval_id, vault.owner)
}

const approve = (vault: RunningVault, { id, decision_hash }: ApprovalView, second_word?: unknown) =>
  vault.asOwner('POST', `/v1/vault/approvals/${id}/approve`, {
    decision_hash,
    ...(second_word !== undefined && { second_word }),
  })
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

t.test('a message stands on its card whole, with its size and its hash', async (t) => {
  const { vault, agent } = await start(t)
  const message = `${'Read this line.\n'.repeat(1_000)}and sell the house\u202e`
  const card = await cardOf(vault, agent, 'sign-message', { chain: 'base', agent_name: 'x', message })
  t.match(card, { kind: 'message', second_word: null, opaque: false })
  const [part] = card.parts
  t.match(part, { title: 'Message', bytes: Buffer.byteLength(message), sha256: sha256(message), whole: true })
  t.equal(part!.text, message.replace('\u202e', '\\u202e'))
  t.equal((await approve(vault, card)).status, 200)
})

t.test('what is not understood wants a second word, over every way that leads to an approval', async (t) => {
  const { vault, agent } = await start(t)
  await vault.api.policies.set('asker', smallPayments, vault.owner)
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
  const card = await cardOf(vault, agent, 'sign', body)
  t.match(card, { kind: 'transaction', opaque: true, second_word: 'blind' })
  t.match(card.parts, [{ title: 'Transaction', format: 'hex', text: unsigned_tx, whole: true }])
  for (const word of [undefined, '', 'Blind', 'unread', 1, null, ['blind']]) {
    const { status, body: refused } = await approve(vault, card, word)
    t.match([status, refused.error.code], [400, 'VALIDATION_ERROR'])
    // A value that is not a string is refused earlier.
    if (typeof word === 'string' && word !== '') t.match(refused.error.message, /"blind"/)
  }
  await t.rejects(vault.api.approvalQueue.approve(card.id, card.decision_hash, 'a chat'), {
    code: 'VALIDATION_ERROR',
  })
  t.equal(vault.api.approvals.get(card.id, vault.owner).status, 'pending')
  t.equal((await approve(vault, card, 'blind')).status, 200)
})

t.test('a write shows the old value and the new one, and the agent sees of it what it sent', async (t) => {
  const { vault, agent } = await start(t)
  await vault.asOwner('POST', '/v1/vault/write', { scope: 'identity.email', value: 'old@example.com' })
  const received: ApprovalView[] = []
  vault.api.watch(
    { caller: { kind: 'agent', agent: vault.api.agentOf(agent.id)!, via: 'direct' }, requestId: 'r' },
    (event) => {
      if (event.type === 'approval') received.push(event.approval)
    },
  )
  const body = { scope: 'identity.email', value: 'new@example.com\n"quoted"' }
  const card = await cardOf(vault, agent, 'write', body)
  t.match(card, { kind: 'write', second_word: null })
  t.match(card.parts, [
    { title: 'Old value', text: 'old@example.com', bytes: 15, secret: true },
    { title: 'New value', text: body.value, bytes: 24, secret: false },
  ])
  const path = `/v1/vault/approvals/${card.id}`
  const polled = (await agent.call('GET', path)).body
  const listed = (await agent.call('GET', '/v1/vault/approvals')).body.approvals[0]
  t.strictSame(listed.parts, [], 'a list is short')
  for (const [how, seen] of Object.entries({ polled, received: received[0] })) {
    t.strictSame(
      seen.parts.map(({ title }: { title: string }) => title),
      ['New value'],
      how,
    )
    t.notMatch(JSON.stringify(seen), /old@example/, how)
  }
  const approval = vault.api.approvalQueue.get(card.id)!
  t.match(approval.parts, [
    { text: '', isWhole: false, bytes: 15 },
    { text: body.value, isWhole: true },
  ])

  await vault.asOwner('POST', '/v1/vault/write', { scope: 'identity.email', value: 'newer@example.com' })
  t.equal((await approve(vault, card)).status, 200)
  const late = await agent.call('POST', '/v1/vault/write', body, noWait)
  t.equal(late.body.error.code, 'APPROVAL_RESOLVED', 'what would go is not what was shown')
  const done = vault.api.approvals.get(card.id, vault.owner)
  t.notMatch(
    JSON.stringify(done),
    /old@example|quoted/,
    'a stored value is on no card any longer than it is decided',
  )
  t.match(done.parts[0], { bytes: 15, sha256: sha256('old@example.com'), whole: false })

  const gone = await cardOf(vault, agent, 'delete', { scope: 'identity.email' })
  t.match(gone, { kind: 'delete', parts: [{ title: 'Value', text: 'newer@example.com', secret: true }] })
  t.strictSame((await agent.call('GET', `/v1/vault/approvals/${gone.id}`)).body.parts, [])
})

t.test('an approved write and deletion do what was shown', async (t) => {
  const { vault, agent } = await start(t)
  const write = { scope: 'identity.name', value: 'Ann' }
  const first = await cardOf(vault, agent, 'write', write)
  t.strictSame(
    first.parts.map(({ title }) => title),
    ['New value'],
    'nothing was stored',
  )
  await approve(vault, first)
  t.match((await agent.call('POST', '/v1/vault/write', write, noWait)).body, { created: true })
  await approve(vault, await cardOf(vault, agent, 'delete', { scope: 'identity.name' }))
  t.strictSame((await agent.call('POST', '/v1/vault/delete', { scope: 'identity.name' }, noWait)).body, {
    deleted: true,
  })
})

t.test('a call shows its address, its headers and its body', async (t) => {
  const { vault, agent } = await start(t)
  await vault.asOwner('POST', '/v1/vault/write', {
    scope: 'credentials.api.shop',
    value: 'secret-token',
    settings: { rules: [{ origin: 'https://shop.example', methods: ['POST'], paths: ['/**'] }] },
  })
  const url = `https://shop.example/orders?note=${'n'.repeat(1_000)}&ship=now`
  const body = { note: 'x'.repeat(2_000), ship_to: '\u202eelsewhere' }
  const card = await cardOf(vault, agent, 'call', {
    scope: 'credentials.api.shop',
    method: 'post',
    url,
    headers: { 'X-Mode': 'live' },
    body,
  })
  t.match(card, { kind: 'call', second_word: null })
  t.strictSame(
    card.parts.map(({ title, text }) => [title, text]),
    [
      ['URL', `POST ${url}`],
      ['Headers', 'x-mode: live\ncontent-type: application/json'],
      ['Body', JSON.stringify(body).replace('\u202e', '\\u202e')],
    ],
  )
  t.notMatch(JSON.stringify(card), /secret-token/)
})

t.test('typed data is shown whole, in the order of its types', async (t) => {
  const { vault, agent } = await start(t)
  const order = {
    domain: { verifyingContract: payee, chainId: 8453, name: 'Shop\u202e' },
    types: {
      Order: [
        { name: 'buyer', type: 'Person' },
        { name: 'items', type: 'Item[]' },
        { name: 'total', type: 'uint256' },
      ],
      Person: [
        { name: 'name', type: 'string' },
        { name: 'wallet', type: 'address' },
      ],
      Item: [
        { name: 'what', type: 'string' },
        { name: 'count', type: 'uint8' },
      ],
    },
    primaryType: 'Order',
    message: {
      total: '5',
      items: Array.from({ length: 60 }, (_, count) => ({ count, what: `thing ${count}` })),
      buyer: { wallet: payee, name: 'B\nuyer' },
    },
  }
  const body = { chain: 'base', agent_name: 'x', typed_data: order }
  const card = await cardOf(vault, agent, 'sign-typed-data', body)
  t.match(card, { kind: 'typed_data', opaque: true, second_word: 'blind' })
  t.match(card.effects, [/NOT DECODED/], 'and not once more, field by field, in other words')
  t.equal(card.effects.length, 1)
  const [domain, message, types] = card.parts
  t.strictSame([domain!.title, message!.title, types!.title], ['Domain', 'Message', 'Types'])
  t.equal(
    JSON.stringify(JSON.parse(message!.text)),
    JSON.stringify({
      buyer: { name: 'B\nuyer', wallet: payee },
      items: Array.from({ length: 60 }, (_, count) => ({ what: `thing ${count}`, count })),
      total: '5',
    }),
  )
  t.equal(
    JSON.stringify(JSON.parse(domain!.text)),
    JSON.stringify({ name: 'Shop\u202e', chainId: 8453, verifyingContract: payee }),
  )
  t.match(domain!.text, /Shop\\u202e/)
})

t.test('a right to take money later is called one', async (t) => {
  const { vault, agent } = await start(t)
  await vault.api.policies.set('asker', { ...smallPayments, allowances: 'ask' }, vault.owner)
  const typed_data = {
    domain: { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: usdcOnBase },
    types: {
      Permit: ['address owner', 'address spender', 'uint256 value', 'uint256 nonce', 'uint256 deadline'].map(
        (field) => ({ type: field.split(' ')[0], name: field.split(' ')[1] }),
      ),
    },
    primaryType: 'Permit',
    message: { owner: ours, spender: payee, value: '5', nonce: 0, deadline: 1_900_000_000 },
  }
  const card = await cardOf(vault, agent, 'sign-typed-data', { chain: 'base', agent_name: 'x', typed_data })
  t.match(card, { kind: 'allowance', second_word: null, parts: [{}, { title: 'Message' }, {}] })
})

t.test('a sign-in is shown with its domain, and with what is wrong about it', async (t) => {
  const { vault, agent } = await start(t)
  const signIn = (change: (text: string) => string = (text) => text) => ({
    chain: 'base',
    agent_name: 'x',
    message: change(
      `shop.example wants you to sign in with your Ethereum account:\n${ours}\n\nWelcome.\n\nURI: https://shop.example/login\nVersion: 1\nChain ID: 8453\nNonce: 32891756\nIssued At: 2026-11-21T10:00:00Z`,
    ),
  })
  const good = await cardOf(vault, agent, 'sign-message', signIn())
  t.match(good, {
    kind: 'sign_in',
    warnings: { length: 0 },
    effects: [/at shop\.example as/, /Sign a text of/],
    second_word: null,
  })
  for (const [from, to, warning] of [
    ['shop.example wants', 'xn--shp-fla.example wants', /internationalized/],
    ['shop.example wants', 'shop.example@evil.test wants', /not a plain host name/],
    ['shop.example wants', 'shоp.example wants', /not a plain host name/],
    ['shop.example wants', '10.0.0.1 wants', /IP address/],
    ['shop.example wants', 'shopI.example wants', /shopI\.example is shopi\.example in lower case/],
    ['shop.example wants', 'http://shop.example wants', /scheme other than https/],
    ['https://shop.example/', 'https://evil.test/', /its URI is on evil\.test\./],
    ['https://shop.example/', 'https://shop.example:444/', /its URI is/],
    ['https://shop.example/', 'https://user@shop.example/', /not a plain https address/],
    ['Chain ID: 8453', 'Chain ID: 1', /names the chain 1,/],
    [ours, payee, /not the account that signs/],
    ['Ethereum account', 'Solana account', /sign-in for Solana/],
    ['00:00Z', '00:00Z\nExpiration Time: 2026-11-21T09:00:00Z', /expired at/],
    ['00:00Z', '00:00Z\nResources:\n- urn:recap:eyJ9', /beyond signing in/],
  ] as const) {
    const card = await cardOf(
      vault,
      agent,
      'sign-message',
      signIn((text) => text.replace(from, to)),
    )
    t.match([card.kind, card.warnings.join(' ')], ['sign_in', warning], to)
    await vault.asOwner('POST', `/v1/vault/approvals/${card.id}/deny`, {})
  }
  for (const change of [
    (text: string) => text.replace('Version: 1', 'Version: 2'),
    (text: string) => text.replace('Welcome.\n', 'Welcome.\nURI: https://shop.example/\n'),
    (text: string) => `\n${text}`,
    (text: string) => text.replace('\nNonce: 32891756', ''),
  ]) {
    const card = await cardOf(vault, agent, 'sign-message', signIn(change))
    t.match([card.kind, card.warnings.join(' ')], ['message', /does not follow the standard/])
    await vault.asOwner('POST', `/v1/vault/approvals/${card.id}/deny`, {})
  }
  const { address } = (await agent.call('GET', '/address/solana')).body
  const short = `shop.example wants you to sign in with your Solana account:\n${address}`
  t.match(await cardOf(vault, agent, 'sign-message', { chain: 'solana', agent_name: 'x', message: short }), {
    kind: 'sign_in',
    warnings: { length: 0 },
  })
  const devnet = `${short}\n\nURI: https://shop.example\nChain ID: devnet`
  t.match(await cardOf(vault, agent, 'sign-message', { chain: 'solana', agent_name: 'x', message: devnet }), {
    kind: 'sign_in',
    warnings: [/names another chain/],
  })
})

t.test('what is too long for a card wants a second word, and says how much of it is not there', async (t) => {
  const { vault, agent } = await start(t)
  await vault.asOwner('POST', '/v1/vault/write', { scope: 'identity.username', value: 'o'.repeat(1_000) })
  const value = 'é\u0007'.repeat(10_000)
  const card = await cardOf(vault, agent, 'write', { scope: 'identity.username', value })
  t.match(card, {
    second_word: 'unread',
    warnings: [/value/, /NOT SHOWN IN FULL: “New value” has 30000 bytes/],
  })
  t.ok(card.parts.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0) <= 65_536)
  t.match(card.parts[1], { whole: false, bytes: 30_000, sha256: sha256(value) })
  t.match((await approve(vault, card)).body.error, { code: 'VALIDATION_ERROR', message: /"unread"/ })
  t.equal((await approve(vault, card, 'unread')).status, 200)
})

t.test('no text of an agent leaves its place', async (t) => {
  const { vault, agent } = await start(t)
  const visible = /^(?:(?![\p{Default_Ignorable_Code_Point}\u2800])[\p{L}\p{M}\p{N}\p{P}\p{S} \n])*$/u
  for (const text of [
    '"} \u202eevil',
    '\u0000\u001b[2J',
    'a\u0301\u0302\u0303\u0304\u0305',
    '\u3164\u2800\u{e0041}',
    '\u2067אבג 12',
  ]) {
    const message = `m${text} ${text}`
    const body = { chain: 'base', agent_name: 'x', purpose: `p${text}`, message }
    const card = await cardOf(vault, agent, 'sign-message', body)
    const shown = [
      ...card.effects,
      ...card.warnings,
      ...card.reasons,
      card.purpose ?? '',
      ...card.parts.map((part) => part.text),
    ]
    t.ok(
      shown.every((one) => visible.test(one) && !/\p{M}{4}/u.test(one)),
      JSON.stringify(text),
    )
    t.ok(
      card.effects.every((one) => !/[\u0590-\u08ff]/.test(one)),
      'nothing turns a sentence around',
    )
    await vault.asOwner('POST', `/v1/vault/approvals/${card.id}/deny`, {})
  }
})

t.test('what could be overlooked in a text is told beside it', async (t) => {
  const { vault, agent } = await start(t)
  const warningsFor = async (message: string) => {
    const body = { chain: 'base', agent_name: 'x', message }
    const card = await cardOf(vault, agent, 'sign-message', body)
    await vault.asOwner('POST', `/v1/vault/approvals/${card.id}/deny`, {})
    return card.warnings
  }
  for (const [message, warning] of [
    [`Hello.${'\n'.repeat(1_001)}Sell the house.${'\n'.repeat(20)}Bye.`, /continues after 1,000 empty lines/],
    [`Hello.${' \u00a0\r\n'.repeat(40)}Sell the house.`, /continues after 39 empty lines/],
    [`Hello.${' '.repeat(4_000)}Sell the house.`, /continues after 4,000 spaces/],
    ['Pay \u05d0100 USDC 5\u05d1 now', /right-to-left/],
    ['Log in at \u0440\u0430ypal.com', /only look Latin: U\+0440, U\+0430/],
    ['Log in at \u0455\u0441\u043e\u0440\u0435.example', /only look Latin/],
  ] as const)
    t.match(await warningsFor(message), [warning], JSON.stringify(message.slice(0, 60)))
  for (const message of [
    `Terms\n\n\n\n1. ${' '.repeat(20)}None.${'\n'.repeat(100)}`,
    'שלום לכולם',
    'Это обычный текст, сорок слов, and some English.',
    'Ο λόγος, 5 μs, α = 0.05',
  ])
    t.strictSame(await warningsFor(message), [], JSON.stringify(message.slice(0, 60)))
  await vault.asOwner('POST', '/v1/vault/write', {
    scope: 'identity.email',
    value: 'p\u0430ypal@example.com',
  })
  const card = await cardOf(vault, agent, 'write', { scope: 'identity.email', value: 'paypal@example.com' })
  t.notMatch(JSON.stringify(card.warnings), /look like/, 'what is stored already is no affair of the agent')
  const scope = 'credentials.api.shop'
  const settings = { inject: { kind: 'query', name: 'key' } }
  await vault.asOwner('POST', '/v1/vault/write', { scope, value: 'secret', settings })
  const secret = { scope, value: 'se\u0441ret' }
  const { warnings } = await cardOf(vault, agent, 'write', secret)
  t.strictSame(warnings, ['The current value will be lost.'], 'no word of a secret in a warning')
})

t.test('a text that spells an invisible character out is not shown as one that has it', async (t) => {
  const { vault, agent } = await start(t)
  const seen = new Map<string, string>()
  for (const value of [
    'me\u200b@example.com',
    'me\\u200b@example.com',
    'me\\u005cu200b@example.com',
    'me\\u005cu005cu200b@example.com',
    'me\u{e0041}@example.com',
    'me\\udb40\\udc41@example.com',
    'a\u0301\u0302\u0303\u0304',
    'a\u0301\u0302\u0303\\u0304',
    '1\u0338000',
    '1\\u0338000',
  ]) {
    const card = await cardOf(vault, agent, 'write', { scope: 'identity.email', value })
    const { text } = card.parts.at(-1)!
    t.equal(seen.get(text), undefined, `${JSON.stringify(value)} as ${text}`)
    seen.set(text, value)
    await vault.asOwner('POST', `/v1/vault/approvals/${card.id}/deny`, {})
  }
  const plain = await cardOf(vault, agent, 'write', {
    scope: 'identity.email',
    value: 'C:\\users caf\\u00e9',
  })
  t.equal(plain.parts.at(-1)!.text, 'C:\\users caf\\u00e9', 'what spells nothing invisible stays as it is')
  t.ok(
    [...seen.keys()].every((text) => !/\u0338/.test(text)),
    'nothing is struck through',
  )
})

t.test('a message is a sentence of one line, however many lines it has', async (t) => {
  const { vault, agent } = await start(t)
  const effectsOf = async (message: string) =>
    (await cardOf(vault, agent, 'sign-message', { chain: 'base', agent_name: 'x', message })).effects
  t.strictSame(await effectsOf('Hello.'), ['Sign a text of 6 characters (Base).'])
  t.strictSame(await effectsOf(`\n Hello.${'\n'.repeat(999)}Sell the house.`), [
    'Sign a text of 1,022 characters in 1,001 lines (Base).',
  ])
  t.match(await effectsOf('x'.repeat(3_000)), [/^Sign a text of 3,000 characters \(Base\)\.$/])
})
