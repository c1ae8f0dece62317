import t, { type Test } from 'tap'
import type { Link } from '../core/domain/link.ts'
import type { PurchaseStatus } from '../core/domain/purchase.ts'
import { change } from './contracts/samples.ts'
import { addStore, defaultPlugins, startGateway, type TestGatewayOptions } from './helpers/gateway.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'
import { offerIn, signingWallet } from './helpers/signIn.ts'
import { openTestStore } from './helpers/store/testStore.ts'

// Wallets that call links by a signature instead of a payment, over real sockets and a whole database.
const seller = await startSeller(t, 'hello')
const wallet = signingWallet()

async function start(t: Test, options: TestGatewayOptions = {}) {
  let aheadMs = 0
  const clock = { now: () => Date.now() + aheadMs }
  const gateway = await startGateway(t, {
    settlers: [createScriptedSettler()],
    adapt: (ports) => ({ ...ports, clock }),
    ...options,
  })
  const addLink = (slug: string, link: Partial<Link> = {}) =>
    gateway.addLink({ slug, url: seller.url, price: '0.10', access: { paidFor: '24h' }, ...link })
  return {
    ...gateway,
    addLink,
    /** Sets the clock of the plugins forward. */
    pass(ms: number) {
      aheadMs += ms
    },
  }
}

async function call(url: string, headers: Record<string, string> = {}, init: RequestInit = {}) {
  const response = await fetch(url, { ...init, headers })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, offer: offerIn(response.headers) }
}

const payment = (nonce: string, payer = wallet.address) => ({
  'payment-signature': scriptedPayment(nonce, '100000', payer),
})

const signedIn = async (url: string, by = wallet) => call(url, { 'sign-in-with-x': await by.signIn(url) })

t.test('a purchase gives its wallet access for its time, and not longer', async (t) => {
  const { addLink, pass } = await start(t)
  const { url } = await addLink('day')
  t.match(await signedIn(url), { status: 402, offer: { error: 'payment_required' } })
  const paid = await call(url, payment('n1'))
  t.equal(paid.status, 200)
  const again = await signedIn(url)
  t.equal(again.status, 200)
  t.equal(again.text, paid.text, 'the body is that of the paid call')
  t.equal(again.headers.get('payment-response'), null)
  t.match(await signedIn(url, signingWallet()), { status: 402 })
  pass(86_399_000)
  t.equal((await signedIn(url)).status, 200)
  pass(2_000)
  t.match(await signedIn(url), { status: 402, offer: { error: 'payment_required' } })
})

t.test('each 402 has its own nonce, the same JSON in header and body, and no cache stores it', async (t) => {
  const { addLink } = await start(t)
  const { url } = await addLink('fresh')
  const [first, second] = [await call(url), await call(`${url}/below?q=1`)]
  t.strictSame(JSON.parse(first.text), first.offer)
  t.strictSame(JSON.parse(second.text), second.offer)
  const infoOf = ({ offer }: typeof first) => offer.extensions['sign-in-with-x'].info
  t.not(infoOf(first).nonce, infoOf(second).nonce)
  t.match(infoOf(second), { domain: 'gateway.test', uri: 'http://gateway.test/api/link/demo/fresh' })
  t.equal(first.headers.get('cache-control'), 'no-store')
  t.match(first.offer.extensions, { 'payment-identifier': {}, bazaar: {} })
})

t.test('domain and uri come from the configuration, whatever the host says', async (t) => {
  const { addLink } = await start(t)
  const { url } = await addLink('host')
  const { offer } = await call(url, { 'x-forwarded-host': 'evil.test', forwarded: 'host=evil.test' })
  t.equal(offer.extensions['sign-in-with-x'].info.domain, 'gateway.test')
})

t.test('a link without access makes no offer and reads no sign-in', async (t) => {
  const { addLink } = await start(t)
  const { url } = await addLink('plain', { access: null })
  const { status, offer } = await call(url, { 'sign-in-with-x': 'anything' })
  t.equal(status, 402)
  t.notOk('sign-in-with-x' in offer.extensions)
})

t.test('what cannot be read is a 400 that says what was expected', async (t) => {
  const { addLink } = await start(t)
  const { url } = await addLink('unread')
  const calls = seller.requests.length
  for (const header of [
    '',
    'x',
    'e30=',
    Buffer.from('{"domain":1}').toString('base64'),
    'A'.repeat(12_000),
  ]) {
    const { status, text } = await call(url, { 'sign-in-with-x': header })
    t.equal(status, 400, header.slice(0, 20))
    t.match(JSON.parse(text), { error: { code: 'invalid_sign_in', message: /Expected/ } })
  }
  t.equal(seller.requests.length, calls)
})

t.test('what can be read and is wrong is a 402 with the reason and a fresh offer', async (t) => {
  const { addLink, pass } = await start(t)
  const { url } = await addLink('wrong', { price: '0', access: 'signed-in' })
  const other = await addLink('wrong-other', { price: '0', access: 'signed-in' })
  const stranger = signingWallet()
  const cases: [string, string][] = [
    ['domain_mismatch', await wallet.signIn(url, { domain: 'evil.test' })],
    ['uri_mismatch', await wallet.signIn(other.url)],
    ['unsupported_chain', await wallet.signIn(url, { chainId: 'eip155:1' })],
    ['nonce', await wallet.signIn(url, { nonce: '0'.repeat(48) })],
    ['nonce', await wallet.signIn(url, { nonce: 'short' })],
    ['nonce', await wallet.signIn(url, { issuedAt: new Date(Date.now() + 60_000).toISOString() })],
    ['signature', await wallet.signIn(url, { signature: '0x' })],
    ['signature', await wallet.signIn(url, { address: stranger.address })],
  ]
  for (const [reason, header] of cases) {
    const { status, offer, text } = await call(url, { 'sign-in-with-x': header })
    t.equal(status, 402, reason)
    t.equal(offer.error, `invalid_siwx_${reason}`)
    t.match(JSON.parse(text), { success: false, error: { code: 'invalid_sign_in' }, accepts: [] })
    const again = await wallet.sign(offer)
    t.equal((await call(url, { 'sign-in-with-x': again })).status, 200, 'the fresh offer is good')
  }
  const header = await wallet.signIn(url)
  pass(300_000)
  t.match(await call(url, { 'sign-in-with-x': header }), {
    status: 402,
    offer: { error: 'invalid_siwx_expired' },
  })
})

t.test('the optional fields of the header change nothing', async (t) => {
  const { addLink } = await start(t)
  const { url } = await addLink('optional', { price: '0', access: 'signed-in' })
  const header = await wallet.signIn(url, {
    statement: 'I give everything away',
    resources: ['https://evil'],
  })
  t.equal((await call(url, { 'sign-in-with-x': header })).status, 200)
})

for (const status of ['refund_due', 'refunded', 'reorged'] as const)
  t.test(`a purchase that is ${status} gives no access`, async (t) => {
    const { addLink, ledger, store } = await start(t)
    const { url } = await addLink('owed')
    const { purchaseId } = JSON.parse((await call(url, payment('n1'))).text)._svc
    t.equal((await signedIn(url)).status, 200)
    await become(status, purchaseId, ledger)
    t.equal((await store.purchases.find(purchaseId))?.status, status)
    t.match(await signedIn(url), { status: 402, offer: { error: 'payment_required' } })
  })

async function become(
  status: Exclude<PurchaseStatus, 'settled' | 'delivered'>,
  purchaseId: string,
  ledger: Awaited<ReturnType<typeof start>>['ledger'],
) {
  const [record] = await ledger.list({ states: ['settled', 'delivered'], limit: 1 })
  const refund = { network: record!.network, transaction: `0x${'b'.repeat(64)}`, paymentKeys: [] }
  const more = status === 'refunded' ? { refund } : {}
  const moved = change({ purchaseId }, record!.row, ['settled', 'delivered'], status, {
    purchaseStatus: status,
    ...more,
  })
  if (!(await ledger.apply(moved))) throw new Error('Expected the payment to change.')
}

t.test('a suspended or deleted link refuses signed-in calls like paid calls', async (t) => {
  const { addLink, store } = await start(t)
  const { url, id } = await addLink('paused')
  await call(url, payment('n1'))
  const [header, late] = [await wallet.signIn(url), await wallet.signIn(url)]
  const suspension = { sinceMs: 0, reason: 'down', cooldownUntilMs: 0, permanent: false }
  await store.links.setSuspension(id, suspension, Date.now())
  const seen = async (status: number, by: string) => {
    const { status: got } = await call(url, { 'sign-in-with-x': by })
    t.equal(got, status)
  }
  await seen(503, header)
  await store.links.setSuspension(id, null, Date.now())
  await store.links.deactivate(id, Date.now())
  await seen(404, late)
})

t.test('a call with a payment and a sign-in is a paid call', async (t) => {
  const { addLink, store, storeId } = await start(t)
  const { url } = await addLink('both')
  await call(url, payment('n1'))
  const header = await wallet.signIn(url)
  t.equal((await call(url, { ...payment('n2'), 'sign-in-with-x': header })).status, 200)
  t.equal((await store.purchases.page(storeId, { limit: 9 })).purchases.length, 2)
  t.equal((await call(url, { 'sign-in-with-x': header })).status, 200, 'the sign-in is still unused')
})

t.test('the response is private, in both response modes and for refusals of the seller', async (t) => {
  const { addLink } = await start(t)
  const failing = await startSeller(t, 'status-404')
  for (const [slug, link] of [
    ['raw', { responseMode: 'raw' }],
    ['first', { settle: 'before' }],
    ['missing', { url: failing.url, price: '0', access: 'signed-in' }],
  ] as [string, Partial<Link>][]) {
    const { url } = await addLink(slug, link)
    await call(url, payment(slug))
    const { headers, status } = await signedIn(url)
    t.equal(headers.get('cache-control'), 'private, no-store', `${slug} ${status}`)
  }
})

t.test('a seller learns the wallet, and a caller cannot claim one', async (t) => {
  const mirror = await startSeller(t, 'mirror')
  const { addLink } = await start(t)
  const { url } = await addLink('wallet', { url: mirror.url, price: '0', access: 'signed-in' })
  const header = await wallet.signIn(url)
  await call(url, { 'sign-in-with-x': header, 'X-Signed-In-Wallet': '0xevil', x_signed_in_wallet: '0xevil' })
  const { rawHeaders } = mirror.requests.at(-1) as unknown as { rawHeaders: string[] }
  const values = rawHeaders.filter((_, i) => /signed.in.wallet/i.test(rawHeaders[i - 1] ?? ''))
  t.strictSame(values, [wallet.address])
  t.notOk(rawHeaders.some((name) => name.toLowerCase() === 'sign-in-with-x'))
})

t.test('the body of a signed-in call is forwarded', async (t) => {
  const mirror = await startSeller(t, 'mirror')
  const { addLink } = await start(t)
  const { url } = await addLink('body', { url: mirror.url, price: '0', access: 'signed-in' })
  const header = await wallet.signIn(url)
  const sent = await call(url, { 'sign-in-with-x': header }, { method: 'POST', body: 'hello' })
  t.match(JSON.parse(sent.text), { method: 'POST', body: 'hello' })
})

t.test('a sign-in is used up for as long as it would be valid, even if the clock was set back', async (t) => {
  let aheadMs = 3_600_000
  const clock = { now: () => Date.now() + aheadMs }
  const store = openTestStore({ clock })
  t.teardown(() => store.close())
  const { addLink, storeId } = await start(t, { store, adapt: (ports) => ({ ...ports, clock }) })
  await addStore(store, storeId)
  const { url } = await addLink('clock', { price: '0', access: 'signed-in' })
  const header = await wallet.signIn(url)
  aheadMs = 0
  t.equal((await call(url, { 'sign-in-with-x': header })).status, 200)
  for (const minutes of [16, 40, 64]) {
    aheadMs = minutes * 60_000
    // An accepted sign-in also deletes the used nonces that need not be kept.
    t.equal((await signedIn(url)).status, 200)
    t.match(await call(url, { 'sign-in-with-x': header }), {
      status: 402,
      offer: { error: 'invalid_siwx_nonce' },
    })
  }
})

t.test(
  'a signed-in call has only the methods of its link, and a refused method leaves the sign-in unused',
  async (t) => {
    const { addLink } = await start(t)
    const { url } = await addLink('posted', { methods: ['POST'] })
    const post = { method: 'POST', body: 'x' }
    t.equal((await call(url, payment('n1'), post)).status, 200)
    const { offer } = await call(url, {}, post)
    const header = { 'sign-in-with-x': await wallet.sign(offer) }
    const calls = seller.requests.length
    for (const method of ['HEAD', 'GET', 'PUT']) {
      const { status, headers } = await call(url, header, { method })
      t.strictSame([status, headers.get('allow')], [405, 'POST, OPTIONS'], method)
    }
    t.equal(seller.requests.length, calls)
    t.equal((await call(url, header, post)).status, 200)
    t.equal((await call(url, {}, { method: 'HEAD' })).status, 402, 'HEAD without a sign-in gets the price')
  },
)

t.test('a signed-in HEAD of a link for GET reaches the seller as HEAD', async (t) => {
  const { addLink } = await start(t)
  const { url } = await addLink('read', { methods: ['GET'] })
  await call(url, payment('n1'))
  const header = await wallet.signIn(url)
  t.match(await call(url, { 'sign-in-with-x': header }, { method: 'HEAD' }), { status: 200, text: '' })
  t.equal(seller.requests.at(-1)!.method, 'HEAD')
})

t.test('calls without a payment share one limit, with a sign-in or without', async (t) => {
  const plugins = defaultPlugins.map((one) =>
    one.use === 'rate-limit' ? { ...one, with: { points: 2 } } : one,
  )
  const { addLink } = await start(t, { plugins })
  const { url } = await addLink('limited', { price: '0', access: 'signed-in' })
  const { offer } = await call(url)
  t.equal((await call(url, { 'sign-in-with-x': await wallet.sign(offer) })).status, 200)
  t.equal((await call(url, { 'sign-in-with-x': await wallet.sign(offer) })).status, 429)
})

t.test('a contract wallet whose chain does not respond gets a 503, and its sign-in stays good', async (t) => {
  let isDown = true
  const { addLink } = await start(t, {
    adapt: (ports) => ({
      ...ports,
      walletProofs: {
        ...ports.walletProofs,
        proofOf: (...signed) =>
          isDown ? Promise.reject(new Error('down')) : ports.walletProofs.proofOf(...signed),
      },
    }),
  })
  const { url } = await addLink('chain', { price: '0', access: 'signed-in' })
  const header = await wallet.signIn(url)
  const refused = await call(url, { 'sign-in-with-x': header })
  t.match([refused.status, JSON.parse(refused.text)], [503, { error: { code: 'settlement_unavailable' } }])
  isDown = false
  t.equal((await call(url, { 'sign-in-with-x': header })).status, 200)
})

t.test(
  'a contract wallet of a network whose contracts are not checked is told to use another network',
  async (t) => {
    const settlers = [createScriptedSettler(), createScriptedSettler('eip155:137')]
    const { addLink } = await start(t, { settlers })
    const { url } = await addLink('elsewhere', { price: '0', access: 'signed-in' })
    const [here, elsewhere] = (await call(url)).offer.extensions['sign-in-with-x'].supportedChains
    t.match([here, elsewhere], [{ chainId: 'eip155:84532' }, { chainId: 'eip155:137' }])
    const by = async (chain: typeof here, change: object) => {
      const { offer } = await call(url)
      const { info } = offer.extensions['sign-in-with-x']
      const only = { extensions: { 'sign-in-with-x': { info, supportedChains: [chain] } } }
      return call(url, { 'sign-in-with-x': await wallet.sign(only, change) })
    }
    const contract = { address: signingWallet().address }
    t.match(await by(elsewhere, contract), {
      status: 402,
      offer: { error: 'invalid_siwx_unsupported_chain', extensions: { 'sign-in-with-x': {} } },
      text: /by the key of this address.*contract wallets of eip155:137 are not checked/,
    })
    t.match(await by(elsewhere, { signature: 'no hex' }), { offer: { error: 'invalid_siwx_signature' } })
    t.match(await by(here, contract), { offer: { error: 'invalid_siwx_signature' } })
    t.match(await by(elsewhere, {}), { status: 200 }, 'a key needs no contract')
  },
)

t.test('a purchase on another network gives no access to a contract wallet', async (t) => {
  const { addLink } = await start(t, {
    adapt: (ports) => ({
      ...ports,
      walletProofs: { ...ports.walletProofs, proofOf: async () => ({ network: 'eip155:8453' }) },
    }),
  })
  const { url } = await addLink('contract')
  await call(url, payment('n1'))
  t.match(await signedIn(url), { status: 402, offer: { error: 'payment_required' } })
})

t.test('a database that is down refuses the call, and nothing reaches the seller', async (t) => {
  const down = () => Promise.reject(new Error('down'))
  const { addLink } = await start(t, {
    adapt: (ports) => ({ ...ports, nonces: { ...ports.nonces, use: down } }),
  })
  const { url } = await addLink('down', { price: '0', access: 'signed-in' })
  const calls = seller.requests.length
  t.equal((await signedIn(url)).status, 500)
  t.equal(seller.requests.length, calls)
})
