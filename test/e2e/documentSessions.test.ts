import t from 'tap'
import { newBuyer, read } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'
import { decimal, fields, iso, type Json, orNull, uuid } from './helpers/shapes.ts'

// The marketplace interface's tables of payment sessions, against the whole product.
const product = await startProduct(t)
const { chains, url, store } = product

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Json
}

async function call(method: string, path: string, body?: unknown, headers: object = {}): Promise<Answer> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}
const asSeller = { authorization: `Bearer ${store.apiKey}` }
const create = (body: object) => call('POST', '/api/v1/payments', body, asSeller)

const created = {
  ...{ id: uuid, clientSecret: /^pscs_[\w-]{43}$/, status: 'open', amount: decimal, currency: 'USDC' },
  ...{ expiresAt: iso, checkoutUrl: String, item: Object, merchant: Object },
}
const status = {
  ...{ id: uuid, amount: decimal, currency: 'USDC', purchaseId: orNull(uuid), txHash: orNull(String) },
  ...{
    chain: orNull(/^(base|solana)$/),
    buyerWallet: orNull(String),
    link: orNull(Object),
    merchant: Object,
  },
}

t.test('a session of any amount: amount and title', async (t) => {
  const made = await create({
    amount: '49.99',
    title: 'A chair',
    description: 'Oak',
    clientReferenceId: 'order 7',
  })
  t.match(made, { status: 201, body: { success: true } })
  const session = made.body.data
  fields(t, 'session', session, created)
  t.equal(Number(session.amount), 49.99)
  fields(t, 'item', session.item, { title: 'A chair', description: 'Oak', amount: decimal })
  fields(t, 'merchant', session.merchant, { username: 'alice' })
  t.equal(session.checkoutUrl, `${url}/pay/checkout/${session.id}?cs=${session.clientSecret}`)
  const minutes = (Date.parse(session.expiresAt) - Date.now()) / 60_000
  t.ok(minutes > 29 && minutes <= 30, `open for ${minutes} minutes`)
  t.equal((await create({ amount: 49.99, title: 'A number' })).status, 201)
  for (const bad of [
    { title: 'x' },
    { amount: '1' },
    {},
    { amount: '0', title: 'x' },
    { amount: '-1', title: 'x' },
  ])
    t.match(await create(bad), { status: 400, body: { success: false, error: { code: 'VALIDATION_ERROR' } } })
  for (const field of ['successUrl', 'cancelUrl'])
    t.equal((await create({ amount: '1', title: 'x', [field]: 'nowhere' })).status, 400, field)
})

t.test('a session of a link: its price counts, also beside an amount', async (t) => {
  await product.addLink('lamp', '0.50', { title: 'A lamp' })
  const { links } = (await call('GET', '/api/v1/links', undefined, asSeller)).body.data
  const linkId = links[0].id
  const { body } = await create({ linkId, amount: '9' })
  t.equal(Number(body.data.amount), 0.5)
  t.equal(body.data.item.title, 'A lamp')
  t.match(await create({ linkId: '00000000-0000-4000-8000-000000000000' }), { status: 404 })
})

t.test('its status: by the client secret, by the key, and by nobody else; CORS for its origin', async (t) => {
  const { data } = (await create({ amount: '1', title: 'x', allowedOrigin: 'https://shop.example' })).body
  const path = `/api/v1/payments/${data.id}`
  const byKey = await call('GET', path, undefined, asSeller)
  const origin = { origin: 'https://shop.example' }
  const bySecret = await call('GET', `${path}?cs=${data.clientSecret}`, undefined, origin)
  for (const response of [byKey, bySecret]) {
    t.equal(response.status, 200)
    fields(t, 'status', response.body.data, { ...status, status: 'open', purchaseId: null })
    fields(t, 'merchant', response.body.data.merchant, { username: 'alice', displayName: String })
    t.notOk('clientSecret' in response.body.data, 'the secret is told once')
  }
  t.equal(bySecret.headers.get('access-control-allow-origin'), 'https://shop.example')
  const elsewhere = await call('GET', `${path}?cs=${data.clientSecret}`, undefined, {
    origin: 'https://evil.example',
  })
  t.equal(elsewhere.headers.get('access-control-allow-origin'), null)
  t.not((await call('GET', path)).status, 200)
  t.not((await call('GET', `${path}?cs=pscs_${'A'.repeat(43)}`)).status, 200)
})

for (const chain of chains.both) {
  t.test(`paid on ${chain.name}: confirmed, and confirming it again answers the same`, async (t) => {
    const { data } = (await create({ amount: '0.75', title: 'A book' })).body
    const path = `/api/v1/payments/${data.id}`
    const buyer = await newBuyer(chains, chain)
    const paid = await read(
      await buyer.fetchV2(`${url}${path}/pay?cs=${data.clientSecret}`, { method: 'POST' }),
    )
    t.equal(paid.status, 200, paid.text)
    const session = (await call('GET', path, undefined, asSeller)).body.data
    fields(t, 'confirmed', session, {
      ...{ ...status, status: 'confirmed', purchaseId: uuid, txHash: String },
      ...{ chain: chain.name === 'evm' ? 'base' : 'solana' },
    })
    t.equal(session.buyerWallet.toLowerCase(), buyer.address.toLowerCase())
    const confirmed = await call('POST', `${path}/confirm`, undefined, asSeller)
    t.match(confirmed, { status: 200, body: { success: true } })
    const canceled = await call('POST', `${path}/cancel?cs=${data.clientSecret}`)
    t.equal(canceled.status, 409, 'nothing leaves a final state')
  })
}

t.test('canceled by its buyer: it cannot be paid any more', async (t) => {
  const { data } = (await create({ amount: '0.75', title: 'A book' })).body
  const path = `/api/v1/payments/${data.id}`
  const canceled = await call('POST', `${path}/cancel?cs=${data.clientSecret}`)
  t.match(canceled, { status: 200, body: { data: { status: 'canceled' } } })
  t.equal((await call('POST', `${path}/pay?cs=${data.clientSecret}`)).status, 409)
})
