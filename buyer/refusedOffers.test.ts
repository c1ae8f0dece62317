import { gzipSync } from 'node:zlib'
import t from 'tap'
import { encodeHeader } from '../core/x402/header.ts'
import { startEvmWorld } from '../test/helpers/buyer/evmWorld.ts'
import { type Answer, offer, startSeller } from '../test/helpers/buyer/seller.ts'

const world = await startEvmWorld(t)
const tokenLookAlike = '0x036CbD53842c5426634e7929541eC2318f3dCF7f'
const mainnetUsdc = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'

/** A seller that would settle any payment, so that only the buyer can refuse. */
const greedy =
  (ask: Answer): Answer =>
  async (request, response, seller) => {
    if (request.payment === null) return await ask(request, response, seller)
    response.writeHead(200).end(await world.settle(request))
  }

/** Offers that differ from the honest one in one entry's field. */
const entries: Record<string, [entry: object, message: RegExp]> = {
  'pays the zero address': [{ payTo: `0x${'0'.repeat(40)}` }, /burns/],
  'pays a well-known burn address': [{ payTo: '0x000000000000000000000000000000000000dEaD' }, /burns/],
  'pays the token itself': [{ payTo: world.chain.usdcAddress }, /is a token/],
  'pays the token itself in lower case': [{ payTo: world.chain.usdcAddress.toLowerCase() }, /is a token/],
  'pays a token of another network': [{ payTo: mainnetUsdc }, /is a token/],
  'pays the buyer': [{ payTo: world.buyer }, /your own wallet/],
  'pays the buyer in lower case': [{ payTo: world.buyer.toLowerCase() }, /your own wallet/],
  'pays a precompile': [{ payTo: `0x${'0'.repeat(39)}4` }, /precompiled/],
  'pays an address with a wrong checksum': [
    { payTo: '0x036cbD53842c5426634e7929541eC2318f3dCF7f' },
    /EIP-55 checksum/,
  ],
  'pays a short address': [{ payTo: '0x1234' }, /not a 0x address/],
  'pays a name': [{ payTo: 'seller.eth' }, /not a 0x address/],
  'pays nobody': [{ payTo: undefined }, /payTo is missing/],
  'pays an object': [{ payTo: { address: world.payTo } }, /payTo is missing/],
  'writes the amount with decimals': [{ amount: '10000.0' }, /amount/],
  'writes the amount with an exponent': [{ amount: '1e4' }, /amount/],
  'writes the amount in hex': [{ amount: '0x2710' }, /amount/],
  'writes the amount with a sign': [{ amount: '+10000' }, /amount/],
  'writes a negative amount': [{ amount: '-10000' }, /amount/],
  'writes the amount with a leading zero': [{ amount: '010000' }, /amount/],
  'writes the amount with a space': [{ amount: ' 10000' }, /amount/],
  'writes the amount with other digits': [{ amount: '١٠٠٠٠' }, /amount/],
  'writes the amount as a number': [{ amount: 10000 }, /amount/],
  'asks for nothing': [{ amount: '0' }, /amount/],
  'asks for more than the token can hold': [{ amount: `9${'0'.repeat(77)}` }, /out of range/],
  'uses the version 1 name of the amount': [{ amount: undefined, maxAmountRequired: '10000' }, /amount/],
  'wants a look-alike token': [{ asset: tokenLookAlike }, /token is not known/],
  "wants another network's token": [{ asset: mainnetUsdc }, /token is not known/],
  'wants a scheme of channels': [{ scheme: 'batch-settlement' }, /scheme is not exact or upto/],
  'may charge less, but names no account that may charge': [{ scheme: 'upto' }, /facilitatorAddress/],
  'is on a network that is unknown': [{ network: 'eip155:10' }, /network is not known/],
  'spells the network oddly': [{ network: 'eip155:084532' }, /network is not known/],
  'uses the version 1 name of the network': [{ network: 'base-sepolia' }, /network is not known/],
  'is on a chain without a wallet': [
    { network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1' },
    /no Solana key was given \(TOLLGATE_SOLANA_KEY, or --key-file\)/,
  ],
  "names another token's EIP-712 domain": [{ extra: { name: 'USD Coin', version: '2' } }, /EIP-712 domain/],
  'names another EIP-712 version': [{ extra: { name: 'USDC', version: '1' } }, /EIP-712 domain/],
  'names the EIP-712 version as a number': [{ extra: { name: 'USDC', version: 2 } }, /EIP-712 domain/],
  'names no EIP-712 domain': [{ extra: {} }, /EIP-712 domain/],
  'has no extra': [{ extra: undefined }, /extra is missing/],
  'lies about the decimals': [{ extra: { name: 'USDC', version: '2', decimals: 18 } }, /extra.decimals/],
  'wants a Permit2 transfer, which this wallet has not allowed': [
    { extra: { name: 'USDC', version: '2', assetTransferMethod: 'permit2' } },
    /Permit2 may move 0.00 USDC .*approve/,
  ],
  'wants its money through an escrow': [
    { extra: { name: 'USDC', version: '2', paymentFlow: 'escrow' } },
    /payment flow is not known/,
  ],
  'gives no time to settle': [{ maxTimeoutSeconds: 0 }, /maxTimeoutSeconds/],
  'gives negative time': [{ maxTimeoutSeconds: -300 }, /maxTimeoutSeconds/],
  'gives half a second too much': [{ maxTimeoutSeconds: 300.5 }, /maxTimeoutSeconds/],
  'writes the time as text': [{ maxTimeoutSeconds: '300' }, /maxTimeoutSeconds/],
}

for (const [name, [entry, message]] of Object.entries(entries)) {
  t.test(`an offer that ${name} is refused and nothing is signed`, async (t) => {
    const run = await world.pay(
      greedy((_, response, seller) => offer(response, world.offerFor(seller.url, entry))),
    )
    t.match(run.report, {
      outcome: 'refused',
      charged: 'no',
      isVerified: false,
      stateFile: null,
    })
    t.match(run.report.message, message)
    t.equal(run.signatures, 0)
    t.equal(run.spent, 0n)
    t.equal(run.seller.received.length, 1)
  })
}

/** Offers with a wrong envelope. */
const envelopes: Record<string, [rest: (origin: string) => object, message: RegExp]> = {
  'is of another version': [() => ({ x402Version: 3 }), /x402Version/],
  'writes its version as text': [() => ({ x402Version: '2' }), /x402Version/],
  'has no entries': [() => ({ accepts: [] }), /accepts/],
  'has entries that are no list': [() => ({ accepts: {} }), /accepts/],
  'has an entry that is null': [() => ({ accepts: [null] }), /accepts/],
  'has no resource': [() => ({ resource: undefined }), /resource is missing/],
  'sells the resource of another host': [
    () => ({ resource: { url: 'https://bank.example/transfer' } }),
    /is at https:\/\/bank.example/,
  ],
  'sells the resource of another port': [
    () => ({ resource: { url: 'http://127.0.0.1:1/api/link/demo/hello' } }),
    /resource.url is at/,
  ],
  'sells the resource of another scheme': [
    (origin) => ({ resource: { url: `${origin.replace('http:', 'https:')}/api/link/demo/hello` } }),
    /resource.url is at https/,
  ],
  'hides another host behind a user name': [
    (origin) => ({ resource: { url: `${origin}@bank.example/` } }),
    /credentials|not an address/,
  ],
  'hides another host behind a backslash': [
    (origin) => ({ resource: { url: `http:\\\\bank.example/${origin}` } }),
    /characters/,
  ],
  'climbs out of its path': [
    (origin) => ({ resource: { url: `${origin}/api/link/demo/../../admin` } }),
    /two ways/,
  ],
  'climbs out of its path in disguise': [
    (origin) => ({ resource: { url: `${origin}/api/%2e%2E/admin` } }),
    /two ways/,
  ],
  'hides a slash in its path': [(origin) => ({ resource: { url: `${origin}/api%2flink` } }), /two ways/],
  'puts a line break into the address': [
    (origin) => ({ resource: { url: `${origin}/api\r\nHost: bank.example` } }),
    /characters/,
  ],
  'has a resource that is no address': [
    () => ({ resource: { url: '/api/link/demo/hello' } }),
    /not an address/,
  ],
  'has a resource that is a list': [(origin) => ({ resource: { url: [origin] } }), /not an address/],
  'has extensions that are a list': [() => ({ extensions: ['bazaar'] }), /extensions/],
  'is too long to be sent back in parts that are not': [
    (origin) => ({
      resource: { url: `${origin}/x`, description: 'x'.repeat(5_800) },
      accepts: [{ ...(world.offerFor(origin)['accepts'] as object[])[0], note: 'y'.repeat(5_400) }],
    }),
    /too long, so its payment could not be sent/,
  ],
  'is too long to be sent back': [
    (origin) => ({ resource: { url: `${origin}/x`, description: 'x'.repeat(7_000) } }),
    /too long/,
  ],
}

for (const [name, [rest, message]] of Object.entries(envelopes)) {
  t.test(`an offer that ${name} is refused and nothing is signed`, async (t) => {
    const run = await world.pay(
      greedy((_, response, { url, origin }) => offer(response, world.offerFor(url, {}, rest(origin)))),
    )
    t.match(run.report, { outcome: 'refused', charged: 'no', stateFile: null })
    t.match(run.report.message, message)
    t.equal(run.signatures, 0)
    t.equal(run.seller.received.length, 1)
  })
}

/** 402s that are malformed below the offer, as bytes. */
const heads: Record<string, [ask: Answer, message: RegExp]> = {
  'says one price in the head and another in the body': [
    (_, response, { url }) => offer(response, world.offerFor(url), world.offerFor(url, { amount: '1' })),
    /contradicts its PAYMENT-REQUIRED header/,
  ],
  'says one payee in the head and another in the body': [
    (_, response, { url }) =>
      offer(response, world.offerFor(url, { payTo: world.buyer }), world.offerFor(url)),
    /contradicts its PAYMENT-REQUIRED header/,
  ],
  'says one resource in the head and another in the body': [
    (_, response, { url, origin }) =>
      offer(response, world.offerFor(url), world.offerFor(url, {}, { resource: { url: `${origin}/other` } })),
    /contradicts its PAYMENT-REQUIRED header/,
  ],
  'has one entry more in the body': [
    (_, response, { url }) => {
      const [honest] = world.offerFor(url)['accepts'] as object[]
      offer(response, world.offerFor(url), world.offerFor(url, {}, { accepts: [honest, honest] }))
    },
    /contradicts its PAYMENT-REQUIRED header/,
  ],
  'says another payee in the body, beside fields of version 1': [
    (_, response, { url }) => {
      const v1 = { maxAmountRequired: '10000', resource: url, mimeType: '' }
      offer(response, world.offerFor(url), world.offerFor(url, { ...v1, payTo: world.buyer }))
    },
    /contradicts its PAYMENT-REQUIRED header/,
  ],
  'says another payee in a body without a version': [
    (_, response, { url }) =>
      offer(
        response,
        world.offerFor(url),
        world.offerFor(url, { payTo: world.buyer }, { x402Version: undefined }),
      ),
    /contradicts its PAYMENT-REQUIRED header/,
  ],
  'has a body with a duplicate key': [
    (_, response, { url }) =>
      response
        .writeHead(402, { 'payment-required': encodeHeader(world.offerFor(url)) })
        .end(JSON.stringify(world.offerFor(url)).replace('"amount":', '"amount":"1","amount":')),
    /"amount" twice/,
  ],
  'has a body that breaks off': [
    (_, response, { url }) => {
      response.writeHead(402, {
        'payment-required': encodeHeader(world.offerFor(url)),
        'content-length': '9999',
      })
      response.write('{', () => response.socket!.end())
    },
    /too long or incomplete/,
  ],
  'has a body that is not compressed as it says': [
    (_, response, { url }) =>
      response
        .writeHead(402, { 'payment-required': encodeHeader(world.offerFor(url)), 'content-encoding': 'gzip' })
        .end('{}'),
    /compressed/,
  ],
  'has a body in a coding that nobody asked for': [
    (_, response, { url }) =>
      response
        .writeHead(402, {
          'payment-required': encodeHeader(world.offerFor(url)),
          'content-encoding': 'br, gzip',
        })
        .end(gzipSync('{}')),
    /compressed/,
  ],
  'says something else in a compressed body': [
    (_, response, { url }) =>
      response
        .writeHead(402, { 'payment-required': encodeHeader(world.offerFor(url)), 'content-encoding': 'gzip' })
        .end(gzipSync(JSON.stringify(world.offerFor(url, { amount: '1' })))),
    /contradicts its PAYMENT-REQUIRED header/,
  ],
  'hides a large body in a small one': [
    (_, response, { url }) =>
      response
        .writeHead(402, { 'payment-required': encodeHeader(world.offerFor(url)), 'content-encoding': 'gzip' })
        .end(gzipSync(Buffer.alloc(50_000_000))),
    /too long or incomplete/,
  ],
  'has two offers in the head': [
    (_, response, { url }) => {
      const cheap = encodeHeader(world.offerFor(url, { amount: '1' }))
      response.writeHead(402, [
        'PAYMENT-REQUIRED',
        cheap,
        'payment-required',
        encodeHeader(world.offerFor(url)),
      ])
      response.end('{}')
    },
    /header is repeated/,
  ],
  'has its offer in both alphabets of base64': [
    (_, response, { url }) => {
      const text = encodeHeader(world.offerFor(url, {}, { error: '???>>>~~~' }))
      response.writeHead(402, { 'payment-required': text.replace('/', '_') }).end('{}')
    },
    /canonical base64/,
  ],
  'has an offer with a duplicate key': [
    (_, response, { url }) => {
      const text = JSON.stringify(world.offerFor(url)).replace('"payTo":', '"payTo":"0x00","payTo":')
      response.writeHead(402, { 'payment-required': Buffer.from(text).toString('base64') }).end('{}')
    },
    /"payTo" twice/,
  ],
  'puts its terms into a prototype': [
    (_, response, { url }) => {
      const text = JSON.stringify(world.offerFor(url)).replace('"payTo":', '"__proto__":{},"payTo":')
      response.writeHead(402, { 'payment-required': Buffer.from(text).toString('base64') }).end('{}')
    },
    /__proto__/,
  ],
  'has an offer that is not UTF-8': [
    (_, response, { url }) => {
      const bytes = Buffer.from(JSON.stringify(world.offerFor(url)).replace('Says', 'S\u00e4ys'), 'latin1')
      response.writeHead(402, { 'payment-required': bytes.toString('base64') }).end('{}')
    },
    /UTF-8/,
  ],
  'is of version 1 only': [
    (_, response) =>
      response
        .writeHead(402)
        .end(JSON.stringify({ x402Version: 1, accepts: [{ scheme: 'exact', maxAmountRequired: '10000' }] })),
    /version 1 only/,
  ],
  'has an offer only in the body': [
    (_, response, { url }) => response.writeHead(402).end(JSON.stringify(world.offerFor(url))),
    /no PAYMENT-REQUIRED header/,
  ],
  'has an honest entry after a false one': [
    (_, response, { url }) => {
      const [honest] = world.offerFor(url)['accepts'] as object[]
      const accepts = [{ ...honest, payTo: world.chain.usdcAddress }, honest]
      offer(response, world.offerFor(url, {}, { accepts }))
    },
    /entry 1 is not acceptable/,
  ],
}

for (const [name, [ask, message]] of Object.entries(heads)) {
  t.test(`a 402 that ${name} is refused and nothing is signed`, async (t) => {
    const run = await world.pay(greedy(ask))
    t.match(run.report, { outcome: 'refused', charged: 'no', stateFile: null })
    t.match(run.report.message, message)
    t.equal(run.signatures, 0)
    t.equal(run.seller.received.length, 1)
  })
}

t.test('a 402 with an endless body is cut off at the limit and refused', async (t) => {
  let sent = 0
  const run = await world.pay((_, response, { url }) => {
    response.writeHead(402, { 'payment-required': encodeHeader(world.offerFor(url)) })
    const chunk = Buffer.alloc(65_536, 'x')
    const more = (error?: Error | null) => {
      if (error || response.destroyed) return
      sent += chunk.length
      response.write(chunk, more)
    }
    more()
  })
  t.match(run.report, { outcome: 'refused', message: /too long/ })
  t.ok(sent > 0, `${sent} bytes were sent`)
  t.equal(run.signatures, 0)
})

t.test('an offer in a head that is too long is never read', async (t) => {
  const run = await world.pay((_, response) =>
    response.writeHead(402, { 'payment-required': 'A'.repeat(60_000) }).end(),
  )
  t.match(run.report, { outcome: 'failed' })
  t.equal(run.signatures, 0)
})

for (const status of [301, 302, 303, 307, 308]) {
  t.test(`a ${status} to another origin is not followed`, async (t) => {
    const other = await startSeller(world.honest)
    t.teardown(() => other.close())
    const { port } = new URL(other.url)
    for (const location of [
      other.url,
      `//127.0.0.1:${port}/api`,
      `\\\\127.0.0.1:${port}/api`,
      other.url.replace('http:', 'https:'),
      other.url.replace('127.0.0.1', 'localhost'),
    ]) {
      const run = await world.pay((_, response) => response.writeHead(status, { location }).end())
      t.match(run.report, { outcome: 'refused', message: /redirects to .*within the same origin/ })
      t.equal(other.received.length, 0)
      t.equal(run.signatures, 0)
    }
  })
}

/** Redirects within the origin that are still not followed. */
const redirects: Record<string, [answer: Answer, options: object, calls: number, message: RegExp]> = {
  'that goes round in a circle': [
    ({ path }, response) => response.writeHead(302, { location: path === '/a' ? '/b' : '/a' }).end(),
    {},
    6,
    /at most 5 redirects/,
  ],
  'of a POST that would become a GET': [
    (_, response) => response.writeHead(302, { location: '/a' }).end(),
    { method: 'POST', body: Buffer.from('{}') },
    1,
    /a POST does not follow a 302/,
  ],
  'that says 303 to a POST': [
    (_, response) => response.writeHead(303, { location: '/a' }).end(),
    { method: 'POST', body: Buffer.from('{}') },
    1,
    /a POST does not follow a 303/,
  ],
  'with credentials in it': [
    (_, response, { origin }) =>
      response.writeHead(308, { location: origin.replace('//', '//user:secret@') }).end(),
    {},
    1,
    /credentials/,
  ],
  'to two places': [
    (_, response) => response.writeHead(308, ['Location', '/a', 'Location', '/b']).end(),
    {},
    1,
    /not name exactly one address/,
  ],
  'to nowhere': [(_, response) => response.writeHead(308).end(), {}, 1, /not name exactly one address/],
  'that is none': [
    (_, response) => response.writeHead(300, { location: '/a' }).end(),
    {},
    1,
    /does not follow a 300/,
  ],
}

for (const [name, [respond, options, calls, message]] of Object.entries(redirects)) {
  t.test(`a redirect ${name} is not followed`, async (t) => {
    const run = await world.pay(respond, options)
    t.match(run.report, { outcome: 'refused', charged: 'no' })
    t.match(run.report.message, message)
    t.equal(run.seller.received.length, calls)
    t.equal(run.signatures, 0)
  })
}

t.test('a price one atomic unit above the cap is not paid without agreement', async (t) => {
  const ask: Answer = (_, response, { url }) => offer(response, world.offerFor(url, { amount: '500001' }))
  const refused = await world.pay(greedy(ask), { maxUsd: '0.50' })
  t.match(refused.report, { outcome: 'above_cap', payment: { usd: '0.500001' } })
  t.equal(refused.signatures, 0)

  const exact = await world.pay(world.honest, { maxUsd: '0.01' })
  t.equal(exact.report.outcome, 'paid', 'a price at the cap is')
})

t.test('the default cap is one dollar', async (t) => {
  const ask: Answer = (_, response, { url }) => offer(response, world.offerFor(url, { amount: '1000001' }))
  t.equal((await world.pay(greedy(ask))).report.outcome, 'above_cap')
})

t.test('a wallet without the money signs nothing', async (t) => {
  const ask: Answer = (_, response, { url }) => offer(response, world.offerFor(url, { amount: '900000000' }))
  const run = await world.pay(greedy(ask), { maxUsd: '1000' })
  t.match(run.report, { outcome: 'refused', message: /the price is 900.00\. Nothing was signed/ })
  t.equal(run.signatures, 0)
})

t.test('a seller that never answers is given up at the deadline', async (t) => {
  const run = await world.pay(() => {}, { timeoutMs: 600 })
  t.match(run.report, { outcome: 'failed', message: /time limit passed/ })
})

t.test('a seller that answers one byte at a time is given up at the deadline', async (t) => {
  const run = await world.pay(
    (_, response, { url }) => {
      response.writeHead(402, { 'payment-required': encodeHeader(world.offerFor(url)) })
      const timer = setInterval(() => response.write(' '), 20)
      response.on('close', () => clearInterval(timer))
    },
    { timeoutMs: 600 },
  )
  t.match(run.report, { outcome: 'refused', message: /incomplete/ })
  t.equal(run.signatures, 0)
})

t.test('a server that changes the protocol gets nothing', async (t) => {
  const run = await world.pay((_, response) => {
    response.socket!.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x402\r\nConnection: Upgrade\r\n\r\n')
  })
  t.match(run.report, { outcome: 'failed' })
})

t.test('an entry for somebody else is passed over, and --network chooses', async (t) => {
  const ask: Answer = async (request, response, seller) => {
    if (request.payment !== null) return await world.honest(request, response, seller)
    const [honest] = world.offerFor(seller.url)['accepts'] as object[]
    const others = [
      { ...honest, scheme: 'upto' },
      { ...honest, network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1' },
    ]
    offer(response, world.offerFor(seller.url, {}, { accepts: [...others, honest] }))
  }
  t.equal((await world.pay(ask)).report.outcome, 'paid')
  const other = await world.pay(ask, { network: 'eip155:8453' })
  t.match(other.report, { outcome: 'refused', message: /network is not the one of --network/ })
})
