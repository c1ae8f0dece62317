import t from 'tap'
import { startGateway } from '../../test/helpers/gateway.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from '../../test/helpers/settler.ts'
import { type SignInOffer, signingWallet } from '../../test/helpers/signIn.ts'

const publicUrl = 'http://gateway.test'

interface Offer {
  readonly resource: { readonly url: string; readonly description: string }
  readonly extensions?: object
}
const decoded = (header: string | null) => JSON.parse(Buffer.from(header!, 'base64').toString())

/** The offer of a 402. Header and body say the same, except that the body of a refused payment has its error in the envelope. */
async function offerOf(url: string, init?: RequestInit): Promise<Offer & { bytes: number }> {
  const response = await fetch(url, init)
  t.equal(response.status, 402, url.slice(0, 99))
  const header = response.headers.get('payment-required')
  const offer = decoded(header)
  const {
    success: _,
    error,
    ...body
  } = (await response.json()) as Offer & { success?: false; error: unknown }
  t.strictSame({ ...body, error: Object(error).reason ?? error }, offer)
  return { ...offer, bytes: header!.length }
}

t.test('a client pays at resource.url: it is what was asked for, with path and query', async (t) => {
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })
  const { url } = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  const address = `${publicUrl}${new URL(url).pathname}`
  t.equal((await offerOf(url)).resource.url, address)
  for (const below of [
    '?city=Oslo',
    '/cities/oslo',
    '/cities/oslo?day=1&day=2',
    '/',
    '?',
    '?q=%22a%22&b=%C3%BC',
    '?q=a\\b',
    '?q=%27a%27&amp;',
    `?q=${'x'.repeat(2_000)}`,
  ]) {
    const offer = await offerOf(url + below)
    t.equal(offer.resource.url, address + below)
    t.ok(offer.bytes < 12_500)
  }
  t.equal((await offerOf(url, { headers: { host: 'evil.example' } })).resource.url, address)
  t.equal(
    (await offerOf(`${url}?city=Oslo`, { method: 'POST', body: '{}' })).resource.url,
    `${address}?city=Oslo`,
  )
})

t.test('the v1 form names the same address, without what asked for that form', async (t) => {
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })
  const { url } = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  const resourceOf = async (below: string) => {
    const { accepts } = (await (await fetch(url + below)).json()) as { accepts: { resource: string }[] }
    return accepts[0]!.resource.replace(`${publicUrl}${new URL(url).pathname}`, '')
  }
  t.equal(await resourceOf('?x402Version=1'), '')
  t.equal(await resourceOf('/oslo?x402Version=1&day=2'), '/oslo?day=2')
})

t.test('too long an address leaves an offer that can be paid, and says what it lacks', async (t) => {
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })
  const { url } = await gateway.addLink({
    slug: 'paid',
    url: 'http://127.0.0.1:1',
    price: '0.10',
    isPublic: true,
    methods: ['GET'],
    description: 'The weather of a city.',
    inputSchema: { type: 'object', properties: { city: { type: 'string', enum: ['c'.repeat(1_500)] } } },
  })
  t.ok((await offerOf(`${url}?q=Oslo`)).extensions)
  const long = await offerOf(`${url}?q=${'x'.repeat(3_700)}`)
  t.equal(long.extensions, undefined, 'the extensions go first')
  t.equal(long.resource.url.length, publicUrl.length + new URL(url).pathname.length + 3_703)
  for (const below of [`?q=${'x'.repeat(12_000)}`, `/${'y'.repeat(9_000)}`, `?q=${'"'.repeat(3_000)}`]) {
    const longest = await offerOf(url + below)
    t.equal(longest.resource.url, publicUrl + new URL(url).pathname)
    t.match(longest.resource.description, /path and query of this call.* too long.*The weather of a city\./)
    t.ok(longest.bytes < 12_500)
  }
})

for (const [name, link] of Object.entries({
  'for signed-in wallets': { price: '0', access: 'signed-in' },
  'that wallets can call again': { price: '0.10', access: { paidFor: '24h' } },
} as const)) {
  t.test(`the 402 of a link ${name} offers to sign in, however long the address is`, async (t) => {
    const seller = await startSeller(t, 'hello')
    const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })
    const enums = { type: 'string', enum: ['c'.repeat(1_500)] }
    const { url } = await gateway.addLink({
      slug: 'long',
      url: seller.url,
      inputSchema: { type: 'object', properties: { city: enums } },
      ...link,
    })
    const wallet = signingWallet()
    await fetch(url, { headers: { 'payment-signature': scriptedPayment('a', '100000', wallet.address) } })
    const whole = await offerOf(`${url}?q=Oslo`)
    t.strictSame(Object.keys(whole.extensions!), ['bazaar', 'payment-identifier', 'sign-in-with-x'])
    const address = publicUrl + new URL(url).pathname
    for (const [length, isWhole] of [
      [3_600, true],
      [4_300, false],
      [12_000, false],
    ] as const) {
      const below = `?q=${'x'.repeat(length)}`
      const offer = await offerOf(url + below)
      t.strictSame(Object.keys(offer.extensions!), ['sign-in-with-x'], `${length} characters`)
      t.equal(offer.resource.url, isWhole ? address + below : address)
      t.ok(offer.bytes < 12_500)
      const header = await wallet.sign(offer as unknown as SignInOffer)
      t.equal((await fetch(url + below, { headers: { 'sign-in-with-x': header } })).status, 200)
    }
  })
}

t.test('a payment that failed is offered the address that it was for', async (t) => {
  const seller = await startSeller(t, 'hello')
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, { settlers: [settler] })
  const { url } = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  settler.settleWith = async () => ({
    status: 'rejected',
    reason: 'insufficient_funds',
    message: 'too little',
  })
  const offer = await offerOf(`${url}?city=Oslo`, {
    headers: { 'payment-signature': scriptedPayment('a', '100000') },
  })
  t.equal(offer.resource.url, `${publicUrl}${new URL(url).pathname}?city=Oslo`)
})

t.test(
  'a payment that says it is for another server is not taken; what it bought before, it gets',
  async (t) => {
    const seller = await startSeller(t, 'hello')
    const settler = createScriptedSettler()
    const gateway = await startGateway(t, { settlers: [settler] })
    const { url } = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
    const pay = async (nonce: string, resource: unknown) => {
      const payment = { ...decoded(scriptedPayment(nonce, '100000')), resource }
      const header = Buffer.from(JSON.stringify(payment)).toString('base64')
      return fetch(url, { headers: { 'payment-signature': header } })
    }
    const strangers = [
      { url: 'https://evil.example/api/link/ann/paid' },
      { url: 'http://gateway.test.evil.example/' },
      { url: 'http://gateway.test@evil.example/' },
      { url: 'HTTPS://evil.example' },
      'https://evil.example/',
    ]
    for (const [i, resource] of strangers.entries()) {
      const refused = await pay(`s${i}`, resource)
      t.equal(refused.status, 402, JSON.stringify(resource))
      t.match(decoded(refused.headers.get('payment-response')), {
        success: false,
        errorReason: 'invalid_resource',
      })
      t.match(await refused.text(), /Expected a payment for http:\/\/gateway\.test, .*evil\.example/)
    }
    t.equal(settler.calls.settle, 0)
    const ours = [
      undefined,
      {},
      { url: `${publicUrl}/api/link/another/one?x=1` },
      { url: 'https://GATEWAY.test:443/' },
      { url },
      { url: '/api/link/ann/paid' },
      { url: 'mcp://tool/call_link' },
      null,
    ]
    for (const [i, resource] of ours.entries())
      t.equal((await pay(`o${i}`, resource)).status, 200, JSON.stringify(resource))
    t.equal((await pay('o0', strangers[0])).status, 200, 'a repeat buys nothing')
  },
)
