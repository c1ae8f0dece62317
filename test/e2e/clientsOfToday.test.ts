import t from 'tap'
import { privateKeyToAccount } from 'viem/accounts'
import { type Answer, answerWell, responseStatus } from './helpers/api.ts'
import { newBuyer, present, read } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'

// What clients of such services do, line by line; one chain pair and one gateway for all of it.
const product = await startProduct(t)
const { chains, api, payTo } = product
const [evm] = chains.both
const url = await product.addLink('today')
const first = await product.addLink('first', '0.01', { settle: 'before' })
const json = { 'content-type': 'application/json' }

interface Entry {
  readonly scheme: string
  readonly network: string
  readonly amount: string
  readonly asset: string
  readonly payTo: string
  readonly maxTimeoutSeconds: number
  readonly extra: { readonly name?: string; readonly version?: string; readonly decimals?: number }
}

/** Both places where a 402 makes its offer. */
async function offersOf(
  target: string,
): Promise<{ header: { accepts: Entry[] }; body: { accepts: Entry[] } }> {
  const response = await fetch(target)
  const header = Buffer.from(response.headers.get('payment-required')!, 'base64').toString()
  return { header: JSON.parse(header), body: (await response.json()) as { accepts: Entry[] } }
}

t.test('amount and network are read from the body, and the payment is built from the header', async (t) => {
  const { header, body } = await offersOf(url)
  t.strictSame(body, header)
  t.strictSame(new Set(body.accepts.map(({ amount }) => amount)), new Set(['10000']))
})

t.test('the first entry of a chain family is USDC: EIP-3009, counted in 6 decimals', async (t) => {
  const { accepts } = (await offersOf(url)).header
  for (const chain of chains.both) {
    const family = chain.network.split(':')[0]!
    const entry = accepts.find(({ network }) => network.startsWith(`${family}:`))!
    t.match(entry, { network: chain.network, asset: chain.usdc, extra: { decimals: 6 } })
    t.notOk('assetTransferMethod' in entry.extra)
  }
  t.match(accepts.find(({ network }) => network.startsWith('eip155:'))?.extra, { name: 'USDC', version: '2' })
})

for (const [name, validAfter] of [
  ['"0"', () => '0'],
  ['ten minutes ago', () => String(Math.floor(Date.now() / 1000) - 600)],
] as const) {
  t.test(`a validAfter of ${name} buys`, async (t) => {
    const buyer = await newBuyer(chains, evm)
    const accepted = (await offersOf(url)).header.accepts.find(({ network }) => network === evm.network)!
    const authorization = {
      ...{ from: buyer.address, to: accepted.payTo, value: accepted.amount, validAfter: validAfter() },
      validBefore: String(Math.floor(Date.now() / 1000) + accepted.maxTimeoutSeconds),
      nonce: `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('hex')}`,
    }
    const field = (name: string, type: string) => ({ name, type })
    const signature = await privateKeyToAccount(buyer.privateKey as `0x${string}`).signTypedData({
      domain: {
        ...{ name: accepted.extra.name!, version: accepted.extra.version! },
        ...{ chainId: 84532, verifyingContract: accepted.asset as `0x${string}` },
      },
      types: {
        TransferWithAuthorization: [
          field('from', 'address'),
          field('to', 'address'),
          field('value', 'uint256'),
          field('validAfter', 'uint256'),
          field('validBefore', 'uint256'),
          field('nonce', 'bytes32'),
        ],
      },
      primaryType: 'TransferWithAuthorization',
      message: authorization as never,
    })
    const payment = { x402Version: 2, accepted, payload: { signature, authorization } }
    const bought = await present(
      `${url}?n=${buyer.address}`,
      Buffer.from(JSON.stringify(payment)).toString('base64'),
    )
    t.equal(bought.status, 200, bought.text)
  })
}

for (const chain of chains.both) {
  t.test(
    `after a timeout the same payment comes twice more, and is charged once (${chain.name})`,
    async (t) => {
      const buyer = await newBuyer(chains, chain)
      const before = (await chain.transfersTo(payTo(chain))).length
      const target = `${url}?n=again-${chain.name}`
      const headers = { 'payment-signature': await buyer.sign(target) }
      const works = Promise.withResolvers<void>()
      const mayAnswer = Promise.withResolvers<void>()
      api.answerWith((request, response) => {
        works.resolve()
        void mayAnswer.promise.then(() => answerWell(request, response))
      })
      const patience = new AbortController()
      const given = fetch(target, { headers, signal: patience.signal })
      await works.promise
      patience.abort()
      await t.rejects(given)
      const repeats = [fetch(target, { headers }), fetch(target, { headers })]
      mayAnswer.resolve()
      const responses = await Promise.all(repeats.map(async (one) => read(await one)))
      api.answerWith(answerWell)
      t.strictSame(
        responses.map(({ status }) => status),
        [200, 200],
        responses[0]!.text,
      )
      t.equal(responses[0]!.text, responses[1]!.text)
      t.equal((await chain.transfersTo(payTo(chain))).length - before, 1)
    },
  )
}

t.test('a JSON type without a body, and a body before anything is paid, are no obstacle', async (t) => {
  const buyer = await newBuyer(chains, evm)
  const got = await read(await buyer.fetchV2(`${url}?n=bare`, { headers: json }))
  t.equal(got.status, 200, got.text)
  const bare = await read(await buyer.fetchV2(`${url}?n=bare`, { method: 'POST', headers: json }))
  t.equal(bare.status, 200, bare.text)
  const called = api.calls.length
  const unpaid = await fetch(`${url}?n=body`, { method: 'POST', headers: json, body: '{"q":1}' })
  t.equal(unpaid.status, 402)
  t.equal(api.calls.length, called)
  const init = { method: 'POST', headers: json, body: '{"q":1}' }
  t.equal((await buyer.fetchV2(`${url}?n=body`, init)).status, 200)
  t.equal(api.calls.length, called + 1)
})

t.test('an answer that is text is a JSON string', async (t) => {
  const buyer = await newBuyer(chains, evm)
  const text: Answer = (_request, response) =>
    response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end('Grüße "hier"\n')
  api.answerWith(text)
  const bought = await buyer.fetchV2(`${url}?n=text`)
  api.answerWith(answerWell)
  t.match(await bought.json(), { data: 'Grüße "hier"\n', _svc: { purchaseId: String } })
})

t.test(
  'every failure parses as JSON, has a lower-case code, and says it all in 500 characters',
  async (t) => {
    const buyer = await newBuyer(chains, evm)
    const used = await buyer.sign(`${url}?n=used`)
    t.equal((await present(`${url}?n=used`, used)).status, 200)
    const owed = await buyer.sign(`${first}?n=owed`)
    api.answerWith(responseStatus(500))
    const failures: readonly (readonly [number, string, string, RequestInit])[] = [
      [502, 'upstream_error', `${first}?n=owed`, { headers: { 'payment-signature': owed } }],
      [409, 'payment_already_used', `${first}?n=owed`, { headers: { 'payment-signature': owed } }],
      [409, 'payment_already_used', `${url}?n=else`, { headers: { 'payment-signature': used } }],
      [400, 'invalid_payment', url, { headers: { 'payment-signature': 'junk' } }],
      [400, 'invalid_payment', url, { headers: { 'x-payment': 'junk' } }],
      [404, 'link_not_found', `${product.url}/api/link/alice/nowhere`, {}],
      [404, 'link_not_found', `${product.url}/api/link/nobody/at-all?x=1`, { method: 'POST', body: '{}' }],
      [404, 'link_not_found', `${product.url}/api/link/alice`, {}],
      [400, 'bad_request', `${url}//double`, {}],
      [400, 'bad_request', `${url}/a%2fb`, {}],
    ]
    for (const [status, code, target, init] of failures) {
      const text = await (await fetch(target, init)).text()
      const { error } = JSON.parse(text) as { error: { code: string; message: string } }
      t.strictSame([error.code, JSON.parse(text).success], [code, false], text)
      t.ok(text.slice(0, 500).includes(JSON.stringify(error.message)), `${status}: ${text}`)
      t.equal((await fetch(target, init)).status, code === 'upstream_error' ? 409 : status)
    }
    api.answerWith(answerWell)
  },
)
