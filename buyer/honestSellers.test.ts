import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { HTTPFacilitatorClient, x402HTTPResourceServer, x402ResourceServer } from '@x402/core/server'
import { ExactEvmScheme } from '@x402/evm/exact/server'
import t from 'tap'
import { readEnvelope } from '../core/x402/envelope.ts'
import { encodeHeader } from '../core/x402/header.ts'
import { PRICE, startEvmWorld } from '../test/helpers/buyer/evmWorld.ts'
import { type Answer, offer, type Seller } from '../test/helpers/buyer/seller.ts'

const world = await startEvmWorld(t)

/** An honest seller with this 402. */
const asking =
  (ask: Answer): Answer =>
  (request, response, seller) =>
    request.payment === null ? ask(request, response, seller) : world.honest(request, response, seller)

const header = (url: string): string => encodeHeader(world.offerFor(url))
const v1Entry = (url: string) => ({
  scheme: 'exact',
  network: 'base-sepolia',
  maxAmountRequired: PRICE,
  resource: url,
  description: '',
  mimeType: 'application/json',
  payTo: world.payTo,
  maxTimeoutSeconds: 300,
  asset: world.chain.usdcAddress,
  extra: { name: 'USDC', version: '2', decimals: 6 },
})

/** Bodies that honest servers send beside the header. */
const bodies: Record<string, (url: string) => unknown> = {
  nothing: () => '',
  'an empty object': () => ({}),
  'the fields of version 1': (url) => ({
    x402Version: 1,
    error: 'X-PAYMENT is required',
    accepts: [v1Entry(url)],
  }),
  'the fields of both versions in one entry': (url) =>
    world.offerFor(url, { ...v1Entry(url), network: world.chain.network }),
  'entries of both versions': (url) =>
    world.offerFor(url, {}, { accepts: [...(world.offerFor(url)['accepts'] as object[]), v1Entry(url)] }),
  'the offer with a longer description and an error of its own': (url) =>
    world.offerFor(
      url,
      {},
      { error: 'Pay first', resource: { url, description: 'much longer', mimeType: '' } },
    ),
  'the offer in another order': (url) => Object.fromEntries(Object.entries(world.offerFor(url)).reverse()),
  'an error': () => ({ error: 'payment_required' }),
  'an error with a code': () => ({ error: { code: 'payment_required', message: 'Pay.' } }),
  'the older body of such services': () => ({
    error: 'payment_required',
    payment: { amount: '0.02', currency: 'USDC', recipient: world.buyer, chain: 'base' },
  }),
  'a list of what it takes': () => ({ accepts: ['card', 'invoice'] }),
  'a word': () => '"Payment Required"',
  'plain text': () => 'Payment Required',
  'JSON that breaks off': () => '{"x402Version":2,"accepts":[',
  'HTML of a proxy': () => '<!doctype html><html><head><title>402</title></head><body>Pay here</body></html>',
  bytes: () => Buffer.from([0xff, 0xfe, 0x00, 0x01]),
  'something compressed, without saying so': () => gzipSync('hello'),
}

for (const [name, body] of Object.entries(bodies)) {
  t.test(`a 402 with ${name} beside the header is paid from the header`, async (t) => {
    const run = await world.pay(
      asking((_, response, { url }) => {
        const sent = body(url)
        response.writeHead(402, { 'payment-required': header(url) })
        response.end(typeof sent === 'string' || Buffer.isBuffer(sent) ? sent : JSON.stringify(sent))
      }),
    )
    t.match(run.report, { outcome: 'paid', isVerified: true }, run.report.message)
    t.equal(run.spent, BigInt(PRICE))
  })
}

/** Spellings of the header with the same meaning. */
const heads: Record<string, (url: string) => string[]> = {
  'in upper case': (url) => ['PAYMENT-REQUIRED', header(url)],
  'twice the same': (url) => ['Payment-Required', header(url), 'payment-required', header(url)],
  'without padding': (url) => {
    const padded = ['', ' ', '  '].map((error) => encodeHeader(world.offerFor(url, {}, { error })))
    return ['payment-required', padded.find((text) => text.endsWith('='))!.replace(/=+$/, '')]
  },
  'in the URL alphabet': (url) => [
    'payment-required',
    Buffer.from(JSON.stringify(world.offerFor(url, {}, { error: '???>>>~~~' }))).toString('base64url'),
  ],
  'with space around it': (url) => ['payment-required', `  ${header(url)} `],
}

for (const [name, head] of Object.entries(heads)) {
  t.test(`an offer that comes ${name} is read`, async (t) => {
    const run = await world.pay(
      asking((_, response, { url }) => response.writeHead(402, head(url)).end('<p>Pay</p>')),
    )
    t.match(run.report, { outcome: 'paid' }, run.report.message)
  })
}

const codings: Record<string, (text: string) => Buffer> = {
  gzip: gzipSync,
  'X-GZIP': gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
}

for (const [coding, compress] of Object.entries(codings)) {
  t.test(
    `what comes compressed by ${coding} all the same is read and handed on as it is meant`,
    async (t) => {
      const run = await world.pay(async (request, response, { url }) => {
        if (request.payment === null) {
          const head = { 'payment-required': header(url), 'content-encoding': coding }
          return response.writeHead(402, head).end(compress(JSON.stringify(world.offerFor(url))))
        }
        const receipt = encodeHeader(world.receiptOf(await world.settle(request)))
        const body = compress('{"data":1}')
        const head = {
          'content-encoding': coding,
          'content-length': body.length,
          'payment-response': receipt,
        }
        response.writeHead(200, head).end(body)
      })
      t.match(run.report, { outcome: 'paid', warnings: { length: 0 } }, run.report.message)
      t.equal(String(run.report.response!.body), '{"data":1}')
    },
  )
}

t.test('a HEAD whose answers would be compressed is paid', async (t) => {
  const run = await world.pay(
    async (request, response, { url }) => {
      response.setHeader('content-encoding', 'gzip').setHeader('content-length', '999')
      if (request.payment === null) return response.writeHead(402, { 'payment-required': header(url) }).end()
      const receipt = encodeHeader(world.receiptOf(await world.settle(request)))
      response.writeHead(200, { 'payment-response': receipt }).end()
    },
    { method: 'HEAD' },
  )
  t.match(run.report, { outcome: 'paid', response: { isComplete: true } }, run.report.message)
})

t.test('a server that does not know of the TLS in front of it offers for the same host by http', (t) => {
  const asked = new URL('https://api.example/x')
  const read = (url: string, at = asked) => readEnvelope(world.offerFor(url), at)
  t.match(read('http://api.example/x'), { ok: true })
  t.match(read('http://api.example:8443/x', new URL('https://api.example:8443/x')), { ok: true })
  t.match(read('http://api.example:8080/x'), { ok: false, message: /resource.url is at/ })
  t.match(read('http://other.example/x'), { ok: false, message: /resource.url is at/ })
  t.match(read('https://api.example/x', new URL('http://api.example/x')), { ok: false })
  t.match(read('ftp://api.example/x'), { ok: false })
  t.end()
})

t.test('a receipt without padding is read', async (t) => {
  const run = await world.pay(async (request, response, seller) => {
    if (request.payment === null) return offer(response, world.offerFor(seller.url))
    const receipt = world.receiptOf(await world.settle(request))
    const texts = ['', ' ', '  '].map((note) => encodeHeader({ ...receipt, note }))
    const text = texts.find((one) => one.endsWith('='))!.replace(/=+$/, '')
    response.writeHead(200, { 'payment-response': text }).end('{}')
  })
  t.match(run.report, { outcome: 'paid', isVerified: true })
})

const withEntries = (more: (honest: Record<string, unknown>) => object[]): Answer =>
  asking((_, response, { url }) => {
    const [honest] = world.offerFor(url)['accepts'] as Record<string, unknown>[]
    offer(response, world.offerFor(url, {}, { accepts: more(honest!) }))
  })

t.test('the entry that fits is paid, wherever it stands', async (t) => {
  const offers: Record<string, (honest: Record<string, unknown>) => object[]> = {
    'behind one above the cap': (honest) => [{ ...honest, amount: '5000000' }, honest],
    'behind one that the wallet has no money for': (honest) => [{ ...honest, amount: '900000000' }, honest],
    'behind one by Permit2': (honest) => [
      { ...honest, extra: { ...(honest['extra'] as object), assetTransferMethod: 'permit2' } },
      honest,
    ],
    'behind one by another scheme': (honest) => [
      { ...honest, scheme: 'upto' },
      { ...honest, scheme: 'batch-settlement', extra: { withdrawDelay: 3_600 } },
      honest,
    ],
    'behind one that is not understood': (honest) => [{ ...honest, extra: undefined }, honest],
    'with a year to settle': (honest) => [{ ...honest, maxTimeoutSeconds: 31_536_000 }],
    'with no end to settle': (honest) => [{ ...honest, maxTimeoutSeconds: 1e308 }],
    'with words of its own in extra': (honest) => [
      { ...honest, extra: { ...(honest['extra'] as object), permit: true, spender: honest['payTo'] } },
    ],
    'behind one through an escrow': (honest) => [
      { ...honest, extra: { ...(honest['extra'] as object), paymentFlow: 'escrow' } },
      honest,
    ],
    'behind one in another token': (honest) => [{ ...honest, asset: `0x${'ab'.repeat(20)}` }, honest],
    'as one settled before the work': (honest) => [
      { ...honest, extra: { ...(honest['extra'] as object), paymentFlow: 'upfront' } },
    ],
  }
  for (const [name, accepts] of Object.entries(offers)) {
    const options = name.includes('no money') ? { maxUsd: '1000' } : {}
    const run = await world.pay(withEntries(accepts), options)
    t.match(run.report, { outcome: 'paid' }, `${name}: ${run.report.message}`)
    t.equal(run.spent, BigInt(PRICE), name)
    t.equal(run.signatures, 1, name)
    const { payload } = run.seller.paid()[0]!.payment as { payload: { authorization: Signed } }
    const leftSeconds = Number(payload.authorization.validBefore) - Date.now() / 1_000
    t.ok(leftSeconds <= 3_600, `${name}: an hour at most is signed`)
  }
})

interface Signed {
  readonly validBefore: string
}

t.test(
  'an extension beside a plain entry stops no payment, and one that has to be answered is',
  async (t) => {
    const info = { description: 'x', version: '1', required: true }
    const others: Record<string, object> = {
      eip2612GasSponsoring: { info, schema: {} },
      erc20ApprovalGasSponsoring: { info, schema: {} },
      'sign-in-with-x': { info: { domain: 'a.example', nonce: 'n' }, supportedChains: [] },
      'offer-receipt': { info: { offers: [] } },
      bazaar: { info: {}, schema: {} },
      'a-permit-or-approval': { required: true },
      'no-object': { a: 1 },
    }
    const responses: [name: string, given: object, whole: boolean][] = [
      ['required', { info: { required: true }, schema: { type: 'object' } }, true],
      ['beside what it says', { required: true }, true],
      ['long', { info: { required: true, note: 'x'.repeat(3_000) } }, false],
      ['optional', { info: { required: false }, schema: { type: 'object' } }, true],
      ['long and optional', { info: { required: false, note: 'x'.repeat(3_000) } }, false],
      ['without words', {}, true],
      ['no object', [true], false],
    ]
    const ids: string[] = []
    for (const [name, given, whole] of responses) {
      const extensions = { ...others, 'payment-identifier': given }
      const run = await world.pay(
        asking((_, response, { url }) => offer(response, world.offerFor(url, {}, { extensions }))),
      )
      t.match(run.report, { outcome: 'paid' }, `${name}: ${run.report.message}`)
      const { extensions: back } = run.seller.paid()[0]!.payment as { extensions?: Back }
      if (Array.isArray(given)) {
        t.equal(back, undefined, name)
        continue
      }
      t.strictSame(Object.keys(back!), ['payment-identifier'], name)
      const { info: lines, ...rest } = back!['payment-identifier']
      t.match(lines.id, /^[\w-]{16,128}$/, name)
      if (whole) t.match({ info: lines, ...rest }, given, name)
      else t.strictSame({ ...lines, id: '' }, { required: name === 'long', id: '' }, name)
      ids.push(lines.id)
    }
    t.equal(new Set(ids).size, 6, 'each payment has an id of its own')
  },
)

interface Back {
  readonly 'payment-identifier': { readonly info: { readonly id: string } }
}

t.test('when every entry is above the cap, the cheapest is asked about, once', async (t) => {
  const requests: string[] = []
  const accepts = ['5000000', '2000000', '3000000']
  const run = await world.pay(
    withEntries((honest) => accepts.map((amount) => ({ ...honest, amount }))),
    { confirm: async ({ usd }) => requests.push(usd) > 1 },
  )
  t.match(run.report, { outcome: 'above_cap' })
  t.strictSame(requests, ['2.00'])
})

/** Redirects up to the last of these paths, which sells. */
const along =
  (status: number, ...paths: string[]): Answer =>
  (request, response, seller) => {
    const next = paths[paths.indexOf(request.path) + 1]
    if (request.path === paths.at(-1)) return sellAt(seller)(request, response, seller)
    response.writeHead(status, { location: next ?? paths[0]! }).end('Moved.')
  }

const sellAt =
  ({ origin }: Seller): Answer =>
  (request, response, seller) =>
    request.payment === null
      ? offer(response, world.offerFor(`${origin}${request.path}`))
      : world.honest(request, response, seller)

for (const status of [301, 302, 303, 307, 308]) {
  t.test(`a ${status} inside the origin is followed, and the payment goes to where it ended`, async (t) => {
    const run = await world.pay(along(status, '/a', '/b?c=1#d', '/b?c=1'))
    t.match(run.report, { outcome: 'paid' }, run.report.message)
    t.equal(run.report.url, `${run.seller.origin}/b?c=1`)
    t.strictSame(
      run.seller.received.map(({ path, payment }) => [path, payment !== null]),
      [
        ['/api/link/demo/hello', false],
        ['/a', false],
        ['/b?c=1', false],
        ['/b?c=1', true],
      ],
    )
    t.match(run.seller.paid()[0]!.payment, { resource: { url: `${run.seller.origin}/b?c=1` } })
  })
}

for (const status of [307, 308]) {
  t.test(`a POST keeps its method, headers and body along a ${status}`, async (t) => {
    const body = Buffer.from('{"a":1}')
    const run = await world.pay(along(status, '/a', '/b'), { method: 'POST', body, headers: ['X-A', '1'] })
    t.match(run.report, { outcome: 'paid' })
    for (const request of run.seller.received)
      t.match(request, { method: 'POST', body: '{"a":1}', headers: { 'x-a': '1' } })
  })
}

for (const status of [301, 302, 303, 307, 308]) {
  t.test(`a ${status} that comes with a true receipt is what was bought, and is not followed`, async (t) => {
    const location = 'https://files.example/secret?signature=1'
    const run = await world.pay(async (request, response, { url }) => {
      if (request.payment === null) return offer(response, world.offerFor(url))
      const receipt = encodeHeader(world.receiptOf(await world.settle(request)))
      response.writeHead(status, { location, 'payment-response': receipt }).end()
    })
    t.match(run.report, { outcome: 'paid', isVerified: true, stateFile: null, attempts: 1 })
    t.match(run.report.response, { status, location })
    t.equal(run.spent, BigInt(PRICE))
  })
}

t.test('a redirect to something free is free', async (t) => {
  const run = await world.pay(({ path }, response) =>
    path === '/free' ? response.end('hello') : response.writeHead(308, { location: '/free' }).end(),
  )
  t.match(run.report, { outcome: 'free', url: `${run.seller.origin}/free` })
})

t.test("the reference's own server is paid, with its JSON and with its HTML", async (t) => {
  for (const accept of ['application/json', 'text/html']) {
    let server: x402HTTPResourceServer | undefined
    const run = await world.pay(
      async (request, response, { origin, url }) => {
        if (request.payment !== null) return await world.honest(request, response, { origin, url } as Seller)
        server ??= await startReference()
        const answer = await server.processHTTPRequest({
          adapter: {
            getHeader: (name) => String(request.headers[name.toLowerCase()] ?? ''),
            getMethod: () => request.method,
            getPath: () => request.path,
            getUrl: () => url,
            getAcceptHeader: () => String(request.headers['accept']),
            getUserAgent: () => 'Mozilla/5.0',
          },
          path: request.path,
          method: request.method,
        })
        if (answer.type !== 'payment-error') throw new Error(answer.type)
        const { status, headers, body, isHtml } = answer.response
        response.writeHead(status, headers).end(isHtml ? String(body) : JSON.stringify(body ?? {}))
      },
      { headers: ['Accept', accept] },
    )
    t.match(run.report, { outcome: 'paid', isVerified: true }, run.report.message)
  }
})

async function startReference(): Promise<x402HTTPResourceServer> {
  const network = world.chain.network as 'eip155:84532'
  const facilitator = new HTTPFacilitatorClient({ url: 'http://127.0.0.1:9' })
  facilitator.getSupported = async () => ({
    kinds: [{ x402Version: 2, scheme: 'exact', network }],
    extensions: [],
    signers: {},
  })
  const resources = new x402ResourceServer(facilitator).register(network, new ExactEvmScheme())
  const server = new x402HTTPResourceServer(resources, {
    'GET /*': {
      accepts: { scheme: 'exact', network, payTo: world.payTo, price: '$0.01' },
      description: 'Says hello',
    },
  })
  await server.initialize()
  return server
}
