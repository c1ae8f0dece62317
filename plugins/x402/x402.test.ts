import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { type Asset, builtInAssets } from '../../core/domain/asset.ts'
import { priceRange, type UsePrice } from '../../core/domain/pricing.ts'
import { startGateway } from '../../test/helpers/gateway.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment, testNetwork } from '../../test/helpers/settler.ts'

const usdc = builtInAssets.find((asset) => asset.network === testNetwork)!
const token: Asset = { ...usdc, address: `0x${'7'.repeat(40)}`, symbol: 'TOK', decimals: 18, usdPerUnit: '2' }
interface Offer {
  accepts: { asset: string; amount: string; network: string; maxTimeoutSeconds: number; extra: object }[]
}
const offerOf = async (url: string) => (await (await fetch(url)).json()) as Offer

t.test('USDC is offered first, other assets at their rate', async (t) => {
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()], assets: [token, usdc] })
  const link = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  const { accepts } = await offerOf(link.url)
  t.strictSame(
    accepts.map(({ asset, amount }) => [asset, amount]),
    [
      [usdc.address, '100000'],
      [token.address, '50000000000000000'],
    ],
  )
})

t.test('only networks with a settler and a wallet of the seller are offered', async (t) => {
  const solana = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
  const settlers = [createScriptedSettler(), createScriptedSettler(solana)]
  const gateway = await startGateway(t, { settlers })
  const link = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  t.strictSame(
    (await offerOf(link.url)).accepts.map(({ network }) => network),
    [testNetwork],
  )
  const other = await startGateway(t, {
    settlers,
    payout: { solana: '4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T' },
  })
  const both = await other.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  t.strictSame((await offerOf(both.url)).accepts.map(({ network }) => network).sort(), [testNetwork, solana])
})

t.test('the 402 names the account that settles payments by upto now', async (t) => {
  const extras = ['1', '2'].map((digit) => ({ facilitatorAddress: `0x${digit.repeat(40)}` }))
  let [extra] = extras
  const settler = { ...createScriptedSettler(testNetwork, ['exact', 'upto']), offerExtra: () => extra! }
  const gateway = await startGateway(t, { settlers: [settler] })
  const pricing: UsePrice = { upTo: '0.10', by: 'header', otherwise: '0.07', stream: false }
  const link = await gateway.addLink({
    slug: 'paid',
    url: 'http://127.0.0.1:1',
    ...priceRange(pricing),
    pricing,
  })
  for (extra of extras) t.match(await offerOf(link.url), { accepts: [{ scheme: 'upto', extra }] })
})

t.test('what a payment says that it accepted only selects an entry; every term is the link’s', async (t) => {
  const seller = await startSeller(t, 'hello')
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, { settlers: [settler], assets: [usdc, token] })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const pay = async (accepted: object, value: string) => {
    const payload = JSON.parse(
      Buffer.from(scriptedPayment(JSON.stringify(accepted), value), 'base64').toString(),
    )
    const header = Buffer.from(
      JSON.stringify({ ...payload, accepted: { ...payload.accepted, ...accepted } }),
    ).toString('base64')
    return (await fetch(link.url, { headers: { 'payment-signature': header } })).status
  }
  t.equal(
    await pay({ amount: '1', payTo: `0x${'9'.repeat(40)}`, maxTimeoutSeconds: 1 }, '1'),
    402,
    'a price of one’s own',
  )
  t.equal(await pay({ amount: '1' }, '100000'), 200)
  t.equal(await pay({ asset: usdc.address.toUpperCase().replace('0X', '0x') }, '100000'), 200)
  t.equal(await pay({ asset: token.address }, '100000'), 402, 'another asset has another amount')
  t.equal(await pay({ asset: token.address }, '50000000000000000'), 200)
  t.equal(await pay({ asset: undefined, n: 1 }, '100000'), 200, 'without an asset, the first of the network')
})

t.test('how long a payment may be valid is the operator’s to say', async (t) => {
  const plugins = [
    { use: 'x402', with: { maxTimeoutSeconds: 60 } },
    { use: 'replay-guard' },
    { use: 'upstream' },
    { use: 'purchase-record' },
  ]
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()], plugins })
  const link = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  t.equal((await offerOf(link.url)).accepts[0]!.maxTimeoutSeconds, 60)
})

t.test(
  'a link below the lowest price of a network is not offered there, and whoever asks is told',
  async (t) => {
    const settler = { ...createScriptedSettler(), minPriceAtomic: 100n }
    const gateway = await startGateway(t, { settlers: [settler] })
    const cheap = await gateway.addLink({ slug: 'cheap', url: 'http://127.0.0.1:1', price: '0.000099' })
    const response = await fetch(cheap.url)
    t.equal(response.status, 503)
    t.match(await response.text(), /price 0\.000099 is below 0\.0001, the minimum on/)
    const paid = await fetch(cheap.url, { headers: { 'payment-signature': scriptedPayment('low', '99') } })
    t.not(paid.status, 200)
    t.equal(settler.calls.verify, 0, 'nor is it settled for whoever knows the terms')
    const link = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.0001' })
    t.equal((await offerOf(link.url)).accepts[0]!.amount, '100')
  },
)

const headerOf = async (url: string) => {
  const header = (await fetch(url)).headers.get('payment-required')!
  return { bytes: header.length, offer: JSON.parse(Buffer.from(header, 'base64').toString()) }
}

t.test(
  'the 402 of a public link says how it is called; the least important goes before the header is too long',
  async (t) => {
    const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })
    const inputSchema = {
      type: 'object',
      properties: { city: { type: 'string', examples: ['Oslo'] } },
      required: ['city'],
    }
    const add = (slug: string, more: object) =>
      gateway.addLink({
        slug,
        url: 'http://127.0.0.1:1',
        price: '0.10',
        isPublic: true,
        methods: ['GET'],
        ...more,
      })
    const whole = await headerOf((await add('whole', { inputSchema, outputExample: { celsius: 21 } })).url)
    t.strictSame(whole.offer.extensions.bazaar.info, {
      input: { type: 'http', method: 'GET', queryParams: { city: 'Oslo' } },
      output: { type: 'json', example: { celsius: 21 } },
    })
    t.strictSame(whole.offer.extensions.bazaar.schema.properties.input.properties.queryParams, inputSchema)
    const bare = await headerOf((await add('bare', {})).url)
    t.strictSame(bare.offer.extensions.bazaar.info, { input: { type: 'http', method: 'GET' } })

    const long = await headerOf((await add('long', { inputSchema, outputExample: 'x'.repeat(5_000) })).url)
    t.strictSame(long.offer.extensions.bazaar.info, {
      input: { type: 'http', method: 'GET', queryParams: { city: 'Oslo' } },
    })
    const wordy = await headerOf(
      (await add('wordy', { inputSchema: { ...inputSchema, description: 'x'.repeat(5_000) } })).url,
    )
    t.match(wordy.offer.extensions.bazaar.info, { input: { queryParams: { city: 'Oslo' } } })
    const described = { ...inputSchema, enum: ['x'.repeat(5_000)] }
    const icon = { iconUrl: `https://icons.test/${'i'.repeat(1_900)}`, tags: ['weather'] }
    const longer = await headerOf((await add('longer', { inputSchema: described, ...icon })).url)
    t.strictSame(Object.keys(longer.offer.extensions), ['payment-identifier'])
    t.match(longer.offer.resource, icon, 'the resource is whole')
    for (const { bytes } of [whole, bare, long, wordy, longer]) t.ok(bytes < 12_500)
  },
)

t.test(
  'of an input that is described at length the 402 says how it is called, and leaves the words out',
  async (t) => {
    const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })
    const inputOf = (words: { readonly title?: string }) => ({
      type: 'object',
      title: words.title,
      properties: {
        // Names, and no words about them.
        description: { type: 'string', ...words },
        default: { enum: ['title', { title: 'kept' }], ...words },
        title: { $ref: '#/$defs/title' },
        many: { type: 'array', items: { type: 'string', ...words }, minItems: 1 },
      },
      required: ['description', 'title'],
      $defs: { title: { type: 'string', minLength: 2, ...words } },
    })
    const more = { price: '0.10', isPublic: true, methods: ['GET'], url: 'http://127.0.0.1:1' }
    const add = (slug: string, words: object) =>
      gateway.addLink({ ...more, slug, inputSchema: inputOf(words) })
    const words = {
      title: 'A title',
      description: 'What it means. '.repeat(5),
      $comment: 'Nobody reads it.',
      examples: ['an example'],
      default: 'a default',
    }
    const bazaarAt = async (url: string) => (await headerOf(url)).offer.extensions.bazaar
    const plain = await bazaarAt((await add('plain', {})).url)
    const wordy = await bazaarAt((await add('wordy', words)).url)
    t.strictSame(wordy.schema, plain.schema)
    t.match(
      wordy.info.input.queryParams,
      { description: 'an example', title: 'an example' },
      'its example is whole',
    )
    t.ok(new Ajv2020({ strict: false }).compile(wordy.schema)(plain.info), 'and it is a schema still')
  },
)

t.test('what is not in the marketplace does not ask to be put into others', async (t) => {
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })
  const add = (slug: string, more: object) =>
    gateway.addLink({ slug, url: 'http://127.0.0.1:1', price: '0.10', ...more })
  const unlisted = await add('unlisted', { isPublic: false, outputExample: 1 })
  t.strictSame(Object.keys((await headerOf(unlisted.url)).offer.extensions), ['payment-identifier'])
  await add('stealth', { isPublic: true, isStealth: true, privateSlug: 'a-secret', outputExample: 1 })
  const stealth = await headerOf(unlisted.url.replace('unlisted', 'a-secret'))
  t.ok(stealth.offer.accepts.length > 0)
  t.strictSame(Object.keys(stealth.offer.extensions), ['payment-identifier'])
})
