import { execFile } from 'node:child_process'
import type { ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import {
  declarePaymentIdentifierExtension,
  extractAndValidatePaymentIdentifier,
} from '@x402/extensions/payment-identifier'
import t from 'tap'
import { createPaymentFiles } from '../cli/pay/paymentFiles.ts'
import { encodeHeader } from '../core/x402/header.ts'
import { PRICE, startEvmWorld } from '../test/helpers/buyer/evmWorld.ts'
import { offer, startSeller } from '../test/helpers/buyer/seller.ts'
import { payForUrl } from './payForUrl.ts'

const run = promisify(execFile)
const payments = createPaymentFiles('/dev/null')
const world = await startEvmWorld(t)

t.test('an honest seller is paid once, and the chain confirms it', async (t) => {
  const { report, seller, signatures, spent } = await world.pay(world.honest)
  t.match(report, {
    outcome: 'paid',
    isVerified: true,
    charged: 'yes',
    attempts: 1,
    stateFile: null,
  })
  t.equal(Buffer.from(report.response!.body).toString(), '{"data":{"hello":"world"}}')
  t.equal(signatures, 1)
  t.equal(spent, BigInt(PRICE))
  t.equal(seller.received.length, 2)
  t.match(report.payment, { amount: '0.01', usd: '0.01', payTo: world.payTo, payer: world.buyer })
})

t.test('the payment has the terms of the offer and lives at most an hour', async (t) => {
  const nowSeconds = Math.floor(Date.now() / 1_000)
  for (const [requests, most] of [
    [300, 300],
    [86_400, 3_600],
  ] as const) {
    const run = await world.pay(async (request, response, seller) => {
      if (request.payment !== null) return await world.honest(request, response, seller)
      response.writeHead(402, {
        'payment-required': encodeHeader(world.offerFor(seller.url, { maxTimeoutSeconds: requests })),
      })
      response.end('{}')
    })
    t.equal(run.report.outcome, 'paid', 'a body that says nothing is no contradiction')
    const payment = run.seller.paid()[0]!.payment!
    const { authorization } = payment['payload'] as { authorization: Record<string, string> }
    t.match(authorization, { from: world.buyer, to: world.payTo, value: PRICE })
    const lifeSeconds = Number(authorization['validBefore']) - nowSeconds
    t.ok(lifeSeconds >= most && lifeSeconds <= most + 60, `${lifeSeconds} s`)
    t.ok(Number(authorization['validAfter']) < nowSeconds)
    t.match(authorization['nonce'], /^0x[0-9a-f]{64}$/)
    t.match(payment, { x402Version: 2, accepted: { amount: PRICE }, resource: { url: run.seller.url } })
  }
})

t.test('a payment is sent with a key that only its buyer has, and again with the same one', async (t) => {
  const keys = new Set<string | undefined>()
  for (const headers of [[], ['idempotency-key', 'one-of-the-users-own']]) {
    const run = await world.pay(world.honest, { headers })
    const sent = run.seller.paid()
    t.match(sent, { length: 1 })
    keys.add(sent[0]!.headers['idempotency-key'] as string)
  }
  const [own, users] = keys
  t.match(own, /^[0-9a-f-]{36}$/)
  t.equal(users, 'one-of-the-users-own')
})

for (const required of [true, false]) {
  t.test(
    `to a seller whose 402 has an id ${required ? 'required' : 'offered'}, every attempt sends the same one`,
    async (t) => {
      const extensions = { 'payment-identifier': declarePaymentIdentifierExtension(required) }
      let attempts = 0
      const run = await world.pay(
        (request, response, seller) => {
          if (request.payment === null) return offer(response, world.offerFor(seller.url, {}, { extensions }))
          if (attempts++ === 0) return response.writeHead(503).end()
          return world.honest(request, response, seller)
        },
        { retryDelaysMs: [0] },
      )
      t.match(run.report, { outcome: 'paid', attempts: 2 }, run.report.message)
      const ids = run.seller.paid().map(({ payment }) => {
        const { id, validation } = extractAndValidatePaymentIdentifier(payment as never)
        t.strictSame(validation, { valid: true })
        return id
      })
      t.match(ids, [/^pay_[0-9a-f]{32}$/, ids[0]])
    },
  )
}

t.test('method, body and headers are those of both calls', async (t) => {
  const body = Buffer.from('{"question":"✓"}')
  const headers = ['X-Trace', '1', 'Content-Type', 'application/json']
  const run = await world.pay(world.honest, { method: 'POST', body, headers })
  t.equal(run.report.outcome, 'paid')
  for (const request of run.seller.received) {
    t.match(request, { method: 'POST', body: '{"question":"✓"}', headers: { 'x-trace': '1' } })
  }
})

t.test('an address that asks for no payment is free', async (t) => {
  const run = await world.pay((_, response) => response.writeHead(200).end('hello'))
  t.match(run.report, { outcome: 'free', charged: 'no', payment: null })
  t.equal(run.signatures, 0)
})

t.test('a failure before any payment is a failure, and nothing is signed', async (t) => {
  for (const status of [400, 404, 500, 503]) {
    const run = await world.pay((_, response) => response.writeHead(status).end())
    t.match(run.report, { outcome: 'failed', charged: 'no' })
    t.equal(run.signatures, 0)
  }
})

t.test('a price above the cap is paid when the user agrees to exactly that price', async (t) => {
  const requests: unknown[] = []
  const run = await world.pay(world.honest, {
    maxUsd: '0.005',
    confirm: async (question) => requests.push(question) === 1,
  })
  t.equal(run.report.outcome, 'paid')
  t.match(requests, [{ usd: '0.01', capUsd: '0.005', payTo: world.payTo, isWithinTenfold: true }])
  const refused = await world.pay(world.honest, { maxUsd: '0.0001', confirm: async () => false })
  t.match(refused.report, { outcome: 'above_cap', charged: 'no' })
  t.equal(refused.signatures, 0)
})

t.test('a payment that can not be kept on disk is not sent', async (t) => {
  const run = await world.pay(world.honest, { payments: createPaymentFiles('/dev/null/payments') })
  t.match(run.report, { outcome: 'refused', message: /could not be kept on disk/ })
  t.equal(run.seller.paid().length, 0)
})

t.test('a proxy of the environment is not asked, even where Node is told to use it', async (t) => {
  const proxy = await startSeller((_, response) => response.writeHead(200).end('proxied'))
  const seller = await startSeller((_, response) => response.writeHead(200).end('direct'))
  t.teardown(() => Promise.all([proxy.close(), seller.close()]))
  const script = `
    import { payForUrl } from ${JSON.stringify(new URL('./payForUrl.ts', import.meta.url).href)}
    import { createPaymentFiles } from ${JSON.stringify(import.meta.resolve('../cli/pay/paymentFiles.ts'))}
    import { get } from 'node:http'
    const url = process.argv[1]
    const report = await payForUrl({ url, wallets: {}, payments: createPaymentFiles('/dev/null') })
    process.stdout.write(Buffer.from(report.response.body).toString())
    get(url, async (response) => process.stdout.write(' ' + String((await response.toArray()).join(''))))`
  const env = { ...process.env, NODE_USE_ENV_PROXY: '1', http_proxy: proxy.origin, no_proxy: '' }
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script, seller.url], { env })
  t.equal(stdout, 'direct proxied', 'the second word shows that the proxy was in force')
})

for (const [name, lose] of Object.entries({
  'is reset': (response) => response.socket!.resetAndDestroy(),
  'is closed without a response': (response) => response.socket!.end(),
  'is interrupted before a response came': (_response, interrupt) => interrupt.abort(),
} satisfies Record<string, (response: ServerResponse, interrupt: AbortController) => unknown>)) {
  t.test(`a signed-in call that ${name} may have been served, so nothing is paid`, async (t) => {
    const interrupt = new AbortController()
    const { report, seller, signatures, spent } = await world.pay(
      (request, response, seller) => {
        if ('sign-in-with-x' in request.headers) return lose(response, interrupt)
        return offer(response, world.offerFor(seller.url, {}, { extensions: signInExtension(seller.url) }))
      },
      { signIn: true, signal: interrupt.signal },
    )
    t.match(report, { outcome: 'failed', charged: 'no', payment: null, attempts: 0, stateFile: null })
    t.match(report.message, /may have served the call.*Nothing was paid.*without --sign-in/)
    t.strictSame([signatures, spent, seller.received.length], [0, 0n, 2])
  })
}

t.test('a wallet whose sign-in the seller refuses pays', async (t) => {
  const { report, seller } = await world.pay(
    (request, response, seller) => {
      if (request.payment !== null) return world.honest(request, response, seller)
      return offer(response, world.offerFor(seller.url, {}, { extensions: signInExtension(seller.url) }))
    },
    { signIn: true },
  )
  t.match(report, { outcome: 'paid', attempts: 1 })
  t.equal(seller.received.length, 3)
})

const signInExtension = (url: string) => ({
  'sign-in-with-x': {
    info: {
      domain: new URL(url).host,
      uri: url,
      version: '1',
      nonce: '0123456789abcdef',
      issuedAt: new Date().toISOString(),
    },
    supportedChains: [{ chainId: world.chain.network, type: 'eip191' }],
  },
})

for (const [name, url] of Object.entries({
  'plain HTTP to another machine': 'http://example.com/',
  'plain HTTP to a name that only looks local': 'http://localhost.example.com/',
  'plain HTTP to an address that only looks local': 'http://127.0.0.1.example.com/',
  'plain HTTP to every interface': 'http://0.0.0.0/',
  'credentials in the address': 'https://user:secret@example.com/',
  'another scheme': 'ftp://example.com/',
  'a file': 'file:///etc/passwd',
  'no address': 'example.com/api',
})) {
  t.test(`${name} is refused before anything is asked`, async (t) => {
    await t.rejects(payForUrl({ url, wallets: {}, payments }), { name: 'UsageError' })
  })
}
