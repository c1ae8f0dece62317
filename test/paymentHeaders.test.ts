import fc from 'fast-check'
import t from 'tap'
import { v1NameOf } from '../core/domain/network.ts'
import { encodeHeader } from '../core/x402/header.ts'
import { readCorpus } from './helpers/corpora.ts'
import { startGateway } from './helpers/gateway.ts'
import { hasWholeResponse, talk } from './helpers/rawHttp.ts'
import { startSeller } from './helpers/sellers.ts'
import {
  createScriptedSettler,
  scriptedPayment,
  scriptedPaymentV1,
  testAsset,
  testNetwork,
  testPayTo,
} from './helpers/settler.ts'

const settler = createScriptedSettler()
const seller = await startSeller(t, 'mirror')
const gateway = await startGateway(t, { settlers: [settler] })
const link = await gateway.addLink({
  slug: 'paid',
  url: seller.url,
  price: '0.10',
  title: 'Title',
  description: 'What it does',
  tags: ['a'],
})
const decode = (header: string | null) => JSON.parse(Buffer.from(header!, 'base64').toString())

t.test(
  'the offer is the same in header and body, and never takes its address from the request',
  async (t) => {
    const { text } = await talk(
      gateway.port,
      `GET ${link.path}?q=1 HTTP/1.1\r\nHost: evil.example\r\n\r\n`,
      hasWholeResponse,
    )
    t.match(text, /^HTTP\/1\.1 402 /)
    t.match(text, /cache-control: no-store/i)
    const body = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4))
    t.strictSame(decode(/payment-required: (\S+)/i.exec(text)![1]!), body)
    const { extensions, ...rest } = body
    t.strictSame(Object.keys(extensions), ['bazaar', 'payment-identifier'])
    t.strictSame(extensions.bazaar.info, { input: { type: 'http', method: 'GET' } })
    t.strictSame(rest, {
      x402Version: 2,
      error: 'payment_required',
      resource: {
        url: `http://gateway.test${link.path}?q=1`,
        description: 'What it does',
        mimeType: 'application/json',
        serviceName: 'Tollgate',
        tags: ['a'],
      },
      accepts: [
        {
          ...{ scheme: 'exact', network: testNetwork, amount: '100000', asset: testAsset, payTo: testPayTo },
          ...{ maxTimeoutSeconds: 300, extra: { name: 'USDC', version: '2', decimals: 6 } },
        },
      ],
    })
    t.equal(seller.requests.length, 0)
  },
)

t.test(
  'an offer stays payable whatever the seller wrote: its header fits into what clients read',
  async (t) => {
    const long = await gateway.addLink({
      slug: 'long',
      url: seller.url,
      price: '1',
      title: '\u{1f600}'.repeat(100),
      description: '\u{1f600}'.repeat(250),
      tags: Array.from({ length: 200 }, (_, i) => `tag-${i}-${'x'.repeat(40)}`),
      iconUrl: `https://icon.example/${'i'.repeat(4_000)}`,
    })
    const response = await fetch(long.url)
    t.equal(response.status, 402)
    const header = response.headers.get('payment-required')!
    t.ok(header.length < 12_288, `${header.length} characters`)
    t.strictSame(decode(header), await response.json())
  },
)

t.test('version 1 is answered to whoever asks for it, by query, header or payment', async (t) => {
  const expected = {
    x402Version: 1,
    error: 'payment_required',
    accepts: [
      {
        ...{
          scheme: 'exact',
          network: v1NameOf(testNetwork),
          maxAmountRequired: '100000',
          payTo: testPayTo,
          asset: testAsset,
        },
        ...{
          resource: `http://gateway.test${link.path}`,
          description: 'What it does',
          mimeType: 'application/json',
        },
        ...{ maxTimeoutSeconds: 300, extra: { name: 'USDC', version: '2', decimals: 6 } },
      },
    ],
  }
  t.strictSame(await (await fetch(`${link.url}?x402Version=1`)).json(), expected)
  t.strictSame(await (await fetch(link.url, { headers: { 'x402-version': '1' } })).json(), expected)
  t.match(await (await fetch(link.url, { headers: { 'x402-version': '2' } })).json(), { x402Version: 2 })
  t.match(await (await fetch(`${link.url}?x402Version=2`)).json(), { x402Version: 2 })

  const paid = await fetch(`${link.url}?x402Version=1&q=1`, {
    headers: { 'x-payment': scriptedPaymentV1('v1', '100000') },
  })
  t.equal(paid.status, 200)
  t.match(await paid.json(), { data: { target: '/?q=1' } })
  t.match(decode(paid.headers.get('x-payment-response')), { success: true, network: 'base-sepolia' })
  t.equal(paid.headers.get('payment-response'), null)

  settler.settleWith = async () => ({ status: 'rejected', reason: 'simulation_failed', message: 'no' })
  const refused = await fetch(link.url, {
    headers: { 'x-payment': scriptedPaymentV1('v1-refused', '100000') },
  })
  settler.settleWith = async () => undefined
  t.equal(refused.status, 402)
  t.match(await refused.json(), {
    ...{ x402Version: 1, error: 'simulation_failed', accepts: expected.accepts },
    ...{ code: 'invalid_payment', message: 'no', requestId: String },
  })
  t.match(decode(refused.headers.get('x-payment-response')), {
    success: false,
    errorReason: 'simulation_failed',
  })
})

t.test('version 1 can be switched off, and the older body switched on', async (t) => {
  const plugins = [
    { use: 'x402', with: { acceptV1: false, legacyBody: true } },
    { use: 'replay-guard' },
    { use: 'upstream' },
    { use: 'purchase-record' },
  ]
  const other = await startGateway(t, { settlers: [settler], plugins })
  const paid = await other.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  for (const url of [paid.url, `${paid.url}?x402Version=1`]) {
    const response = await fetch(url)
    t.strictSame(await response.json(), {
      error: 'payment_required',
      payment: { amount: '0.10', currency: 'USDC', recipient: testPayTo, chain: 'base' },
    })
    t.match(decode(response.headers.get('payment-required')), {
      x402Version: 2,
      accepts: [{ amount: '100000' }],
    })
  }
  const v1 = await fetch(paid.url, { headers: { 'x-payment': scriptedPaymentV1('off', '100000') } })
  t.match(
    { status: v1.status, body: await v1.json() },
    {
      status: 402,
      body: { error: { code: 'invalid_payment', reason: 'invalid_x402_version' }, accepts: [{}] },
    },
  )
})

/** Sends one payment header as bytes; what must hold of anything that is not a payment. */
async function isRefused(name: string, value: string): Promise<boolean> {
  const [requests, transfers] = [seller.requests.length, settler.transfers.length]
  const { statuses, text } = await talk(
    gateway.port,
    `GET ${link.path} HTTP/1.1\r\nHost: g\r\n${name}: ${value}\r\n\r\n`,
    hasWholeResponse,
  )
  if (seller.requests.length !== requests || settler.transfers.length !== transfers) return false
  if (statuses.length !== 1) return false
  return (
    [400, 402, 409, 431].includes(statuses[0]!) &&
    !(value.length >= 16 && text.includes(value.slice(0, 2_000)))
  )
}

const names = ['Payment-Signature', 'PAYMENT-SIGNATURE', 'x-payment'] as const
const good = {
  x402Version: 2,
  accepted: { scheme: 'exact', network: testNetwork, asset: testAsset },
  payload: { payer: '0x22', nonce: 'bad', value: '100000' },
}
const b64 = (text: string) => Buffer.from(text).toString('base64')

t.test('what is no payment is refused with a reason, and the seller is not called', async (t) => {
  const json = JSON.stringify(good)
  /** Of these each can be read. */
  const failing: Record<string, string> = {
    'another scheme': encodeHeader({ ...good, accepted: { ...good.accepted, scheme: 'upto' } }),
    'another network': encodeHeader({ ...good, accepted: { ...good.accepted, network: 'eip155:1' } }),
    'an inherited network': encodeHeader({ ...good, accepted: { ...good.accepted, network: 'constructor' } }),
    'another asset': encodeHeader({ ...good, accepted: { ...good.accepted, asset: testPayTo } }),
    'the amount with a zero in front': encodeHeader({
      ...good,
      payload: { ...good.payload, value: '0100000' },
    }),
    'another amount': encodeHeader({ ...good, payload: { ...good.payload, value: '99999' } }),
  }
  const bad: Record<string, string> = {
    ...failing,
    'not base64': '!!!!',
    base64url: Buffer.from(JSON.stringify({ ...good, more: '\u{7f}?>~?>~' })).toString('base64url'),
    'without padding': b64(`${json} `).replace(/=+$/, 'A'),
    'with a space in it': `${encodeHeader(good).slice(0, 10)} ${encodeHeader(good).slice(10)}`,
    'base64 twice': b64(encodeHeader(good)),
    'two values': `${encodeHeader(good)},${encodeHeader(good)}`,
    'not JSON': b64('{'),
    'JSON and more': b64(`${json}x`),
    'a list': b64(`[${json}]`),
    null: b64('null'),
    text: b64('"x"'),
    'a duplicate key': b64(json.replace('{', '{"x402Version":2,')),
    'a duplicate key inside': b64(json.replace('"nonce":', '"nonce":"x","nonce":')),
    __proto__: b64(json.replace('{', '{"__proto__":{"payload":{}},')),
    'invalid UTF-8': Buffer.concat([
      Buffer.from(json.slice(0, -1)),
      Buffer.from([0xff]),
      Buffer.from('}'),
    ]).toString('base64'),
    'a byte order mark': b64(`\ufeff${json}`),
    'too deep': b64(json.replace('"0x22"', `${'['.repeat(100)}${']'.repeat(100)}`)),
    'no version': encodeHeader({ ...good, x402Version: undefined }),
    'version as text': encodeHeader({ ...good, x402Version: '2' }),
    'version 3': encodeHeader({ ...good, x402Version: 3 }),
    'version 2.5': encodeHeader({ ...good, x402Version: 2.5 }),
    'no payload': encodeHeader({ ...good, payload: undefined }),
    'a payload of text': encodeHeader({ ...good, payload: 'x' }),
    'a payload that is a list': encodeHeader({ ...good, payload: [] }),
    'nothing accepted': encodeHeader({ ...good, accepted: undefined }),
    'the amount as a number': encodeHeader({ ...good, payload: { ...good.payload, value: 100000 } }),
    empty: '',
    'longer than is read': 'A'.repeat(16_388),
    '17 KB that would be a payment': encodeHeader({ ...good, more: 'x'.repeat(13_000) }),
  }
  t.match(bad['base64url'], /[-_]/)
  for (const [what, value] of Object.entries(bad)) {
    for (const name of names) t.ok(await isRefused(name, value), `${what} in ${name}`)
    if (value === '') continue
    const response = await fetch(link.url, { headers: { 'payment-signature': value } })
    t.match(
      { status: response.status, body: await response.json() },
      {
        status: what in failing ? 402 : 400,
        body: { success: false, error: { code: 'invalid_payment', reason: /^[a-z0-9_]+$/, message: String } },
      },
      what,
    )
  }
})

t.test('two payment headers are none', async (t) => {
  const one = `Payment-Signature: ${scriptedPayment('twice', '100000')}`
  for (const other of [
    one,
    `X-PAYMENT: ${scriptedPaymentV1('twice', '100000')}`,
    'X-PAYMENT: ',
    'payment-signature: junk',
  ]) {
    for (const lines of [`${one}\r\n${other}`, `${other}\r\n${one}`]) {
      const { statuses } = await talk(
        gateway.port,
        `GET ${link.path} HTTP/1.1\r\nHost: g\r\n${lines}\r\n\r\n`,
        hasWholeResponse,
      )
      t.strictSame(statuses, [400], lines.length.toString())
    }
  }
  t.notOk(settler.transfers.includes('twice'))
})

t.test('no naughty string and no text of the JSON suite is a payment', async (t) => {
  const strings = readCorpus('blns.json')
  const suite = readCorpus('jsontestsuite.json') as unknown as Record<string, string | object> | undefined
  if (strings === undefined || suite === undefined) return void t.comment('the corpora are not here')
  for (const text of strings) {
    const bytes = Buffer.from(text).toString('latin1')
    if (!/[\0\r\n]/.test(bytes)) t.ok(await isRefused('payment-signature', bytes), 'as it is', { text })
    t.ok(await isRefused('payment-signature', b64(text)), 'in base64', { text })
    t.ok(
      await isRefused(
        'payment-signature',
        encodeHeader({ ...good, payload: { payer: text, nonce: 1, value: text } }),
      ),
      'inside',
      { text },
    )
  }
  for (const [name, text] of Object.entries(suite)) {
    if (typeof text === 'string' && text.length < 16_000) t.ok(await isRefused('x-payment', text), name)
  }
})

t.test('no change of one byte makes a payment of one that is not, and none gets through', async () => {
  const base = encodeHeader({ ...good, payload: { ...good.payload, value: '99999' } })
  const before = settler.transfers.length
  const mutation = fc.record({
    at: fc.nat(base.length - 1),
    to: fc.integer({ min: 0x20, max: 0xff }),
    how: fc.constantFrom('replace', 'insert', 'remove', 'cut', 'repeat'),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(mutation, { minLength: 1, maxLength: 4 }),
      fc.constantFrom(...names),
      async (mutations, name) => {
        let value = base
        for (const { at, to, how } of mutations) {
          const char = String.fromCharCode(to === 0x7f ? 0x20 : to)
          if (how === 'replace') value = value.slice(0, at) + char + value.slice(at + 1)
          else if (how === 'insert') value = value.slice(0, at) + char + value.slice(at)
          else if (how === 'remove') value = value.slice(0, at) + value.slice(at + 1)
          else if (how === 'cut') value = value.slice(0, at)
          else value += value.slice(at)
        }
        return isRefused(name, value)
      },
    ),
    { numRuns: 1_500 },
  )
  if (settler.transfers.length !== before) throw new Error('a mutated payment was settled')
})

t.test('no JSON of any shape is a 5xx or a way to the seller', async () => {
  const shaped = fc.record(
    {
      x402Version: fc.oneof(fc.constantFrom(1, 2), fc.jsonValue()),
      scheme: fc.oneof(fc.constant('exact'), fc.jsonValue()),
      network: fc.oneof(fc.constantFrom(testNetwork, 'base-sepolia'), fc.jsonValue()),
      payload: fc.oneof(
        fc.record(
          { payer: fc.jsonValue(), nonce: fc.jsonValue(), value: fc.oneof(fc.constant('1'), fc.jsonValue()) },
          { requiredKeys: [] },
        ),
        fc.jsonValue(),
      ),
      accepted: fc.oneof(
        fc.record(
          {
            scheme: fc.constant('exact'),
            network: fc.oneof(fc.constant(testNetwork), fc.jsonValue()),
            asset: fc.jsonValue(),
          },
          { requiredKeys: [] },
        ),
        fc.jsonValue(),
      ),
    },
    { requiredKeys: [] },
  )
  await fc.assert(
    fc.asyncProperty(shaped, fc.constantFrom(...names), (value, name) =>
      isRefused(name, encodeHeader(value)),
    ),
    { numRuns: 1_500 },
  )
})
