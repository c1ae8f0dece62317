import { once as onceTold } from 'node:events'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { decodeFunctionData, type Hex, parseAbi } from 'viem'
import { newBuyer, present, read } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'

const settlingCalls = parseAbi([
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
])

/** Calls from an address of this machine that is not the buyers'. */
async function fromElsewhere(url: string, headers: Record<string, string>) {
  const [response] = await onceTold(request(url, { localAddress: '127.0.0.2', headers }).end(), 'response')
  return { status: response.statusCode, headers: response.headers, text: await text(response) }
}

const product = await startProduct(t)
const { chains, api, payTo, tollgate } = product
const store = tollgate.stack.store

for (const chain of chains.both) {
  const a = await product.addLink(`a-${chain.name}`)
  const b = await product.addLink(`b-${chain.name}`)
  const buyer = await newBuyer(chains, chain)
  const seen = async () => ({
    transfers: (await chain.transfersTo(payTo(chain))).length,
    purchases: (await store.purchases.ledgerCheck()).purchases,
    calls: api.calls.length,
    earned: await chain.balance(payTo(chain)),
  })
  /** What changed between two looks. */
  const since = async (before: Awaited<ReturnType<typeof seen>>) => {
    const now = await seen()
    return {
      transfers: now.transfers - before.transfers,
      purchases: now.purchases - before.purchases,
      calls: now.calls - before.calls,
      earned: now.earned - before.earned,
    }
  }
  const once = { transfers: 1, purchases: 1, calls: 1, earned: 10_000n }

  t.test(`eight uses of one payment at the same moment are one call on ${chain.name}`, async (t) => {
    const payment = await buyer.sign(`${a}?n=eight`)
    const before = await seen()
    const responses = await Promise.all(Array.from({ length: 8 }, () => present(`${a}?n=eight`, payment)))
    t.strictSame(await since(before), once)
    t.strictSame(
      responses.map((response) => response.status),
      Array(8).fill(200),
      'everybody who asked gets the one answer',
    )
    t.equal(new Set(responses.map((response) => response.text)).size, 1)
    t.equal(new Set(responses.map((response) => response.receipt?.transaction)).size, 1)
  })

  t.test(`twenty payments at the same moment are twenty calls on ${chain.name}`, async (t) => {
    const urls = Array.from({ length: 20 }, (_, i) => `${a}?n=twenty-${i}`)
    const payments = await Promise.all(urls.map((url) => buyer.sign(url)))
    const before = await seen()
    const responses = await Promise.all(urls.map((url, i) => present(url, payments[i]!)))
    t.strictSame(
      responses.map((response) => response.status),
      Array(20).fill(200),
    )
    t.strictSame(await since(before), { transfers: 20, purchases: 20, calls: 20, earned: 200_000n })
    // On EVM several may share a transaction; each receipt names the one that its transfer is in.
    const transfers = (await chain.transfersTo(payTo(chain))).slice(before.transfers)
    t.strictSame(responses.map(({ receipt }) => receipt?.transaction).sort(), transfers.sort())
    t.equal(new Set(responses.map((response) => response.body._svc?.purchaseId)).size, 20)
    t.ok(
      responses.every((response, i) => response.text.includes(`n=twenty-${i}"`)),
      'each got its own answer',
    )
  })

  t.test(`a payment that was used for one link is refused on another on ${chain.name}`, async (t) => {
    const payment = await buyer.sign(`${a}?n=used`)
    t.equal((await present(`${a}?n=used`, payment)).status, 200)
    const before = await seen()
    for (const url of [`${b}?n=used`, `${a}?n=other`, `${a}/below?n=used`]) {
      const refused = await present(url, payment)
      t.match(refused, { status: 409, body: { error: { code: 'payment_already_used' } } }, url)
    }
    const post = await fetch(`${a}?n=used`, {
      method: 'POST',
      body: '{}',
      headers: { 'payment-signature': payment },
    })
    t.equal(post.status, 409, 'another method is another call')
    t.strictSame(await since(before), { transfers: 0, purchases: 0, calls: 0, earned: 0n })
  })

  t.test(
    `a payment signed for one link buys one call of another at the same terms on ${chain.name}`,
    async (t) => {
      const payment = await buyer.sign(`${a}?n=moved`)
      const before = await seen()
      const first = await present(`${b}?n=moved`, payment)
      t.equal(first.status, 200, first.text)
      const refused = await present(`${a}?n=moved`, payment)
      t.match(refused, { status: 409, body: { error: { code: 'payment_already_used' } } })
      t.strictSame(await since(before), once)
    },
  )

  t.test(`the same call with the same payment gets its stored answer on ${chain.name}`, async (t) => {
    const payment = await buyer.sign(`${a}?n=again`)
    const before = await seen()
    const first = await present(`${a}?n=again`, payment)
    const second = await present(`${a}?n=again`, payment)
    t.equal(second.status, 200)
    t.equal(second.text, first.text)
    t.strictSame(second.receipt, first.receipt)
    t.strictSame(await since(before), once)
  })

  t.test(
    `who repeats a call from elsewhere gets neither its answer nor its token on ${chain.name}`,
    async (t) => {
      const url = `${a}?n=observed`
      const payment = await buyer.sign(url)
      const before = await seen()
      const first = await present(url, payment)
      const { reviewToken } = first.body._svc!
      const stolen = await fromElsewhere(url, { 'payment-signature': payment })
      t.match(stolen, { status: 409, text: /IP address that sent the first call/ })
      t.notMatch(JSON.stringify(stolen), reviewToken)
      t.notMatch(stolen.text, 'n=observed')
      t.equal((await present(url, payment)).text, first.text, 'its buyer gets it again')
      t.strictSame(await since(before), once)
    },
  )

  t.test(`a buyer whose call had an Idempotency-Key gets its answer anywhere on ${chain.name}`, async (t) => {
    const url = `${a}?n=moving`
    const payment = await buyer.sign(url)
    const headers = { 'payment-signature': payment, 'idempotency-key': 'a-key-that-nobody-guesses' }
    const first = await (await fetch(url, { headers })).text()
    t.match(await fromElsewhere(url, headers), { status: 200, text: first })
    const { 'idempotency-key': _, ...withoutKey } = headers
    t.match(await fromElsewhere(url, withoutKey), { status: 409 })
    t.equal((await present(url, payment)).status, 409, 'the key is what was noted')
  })

  t.test(
    `an unmodified client without the money signs once, and gets the reason with a fresh offer on ${chain.name}`,
    async (t) => {
      const { fetch } = globalThis
      let requestCount = 0
      globalThis.fetch = (...args) => {
        requestCount++
        return fetch(...args)
      }
      const poor = await newBuyer(chains, chain, 1n).finally(() => Object.assign(globalThis, { fetch }))
      const before = await seen()
      requestCount = 0
      const refused = await read(await poor.fetchV2(`${a}?n=poor`))
      t.match(refused, { status: 402, body: { error: { code: 'invalid_payment', message: /\S/ } } })
      const { reason } = refused.body.error!
      t.match(reason, /insufficient/)
      t.match(refused.receipt, { success: false, errorReason: reason, network: chain.network })
      const fresh = JSON.parse(atob(refused.headers.get('payment-required')!))
      t.match(fresh, { error: reason, accepts: [{}, {}], resource: { url: `${a}?n=poor` } })
      t.equal(requestCount, 2, 'without a payment, and with one')
      t.strictSame(await since(before), { transfers: 0, purchases: 0, calls: 0, earned: 0n })
    },
  )

  t.test(
    `a payment for less than the price of a dearer link is refused there on ${chain.name}`,
    async (t) => {
      const dear = await product.addLink(`dear-${chain.name}`, '0.02')
      const payment = await buyer.sign(`${a}?n=cheap`)
      const before = await seen()
      const refused = await present(`${dear}?n=cheap`, payment)
      t.match(refused, { status: 402, body: { error: { code: 'invalid_payment', reason: String } } })
      t.strictSame(await since(before), { transfers: 0, purchases: 0, calls: 0, earned: 0n })
      t.equal((await present(`${a}?n=cheap`, payment)).status, 200, 'and still buys what it was signed for')
    },
  )
}

t.test(
  'a payment that is rebuilt from its transaction on chain buys nothing and is told nothing',
  async (t) => {
    const [chain] = chains.both
    const url = await product.addLink('rebuilt')
    const buyer = await newBuyer(chains, chain)
    const offer = JSON.parse(
      Buffer.from((await fetch(url)).headers.get('payment-required')!, 'base64').toString(),
    )
    const first = await present(url, await buyer.sign(url))
    t.equal(first.status, 200, first.text)
    // From here on, all that an observer has: the chain, and the offer that everybody is made.
    const { input } = await chains.evm.rpc<{ input: Hex }>(
      'eth_getTransactionByHash',
      first.receipt!.transaction,
    )
    const { args } = decodeFunctionData({ abi: settlingCalls, data: input })
    const [from, to, value, validAfter, validBefore, nonce] = args
    const signature =
      args.length === 7 ? args[6] : `${args[7]}${args[8].slice(2)}${args[6].toString(16).padStart(2, '0')}`
    const authorization = {
      ...{ from, to, nonce, value: `${value}`, validAfter: `${validAfter}`, validBefore: `${validBefore}` },
    }
    const accepted = offer.accepts.find((one: { network: string }) => one.network === chain.network)
    const rebuilt = Buffer.from(
      JSON.stringify({ x402Version: 2, accepted, payload: { signature, authorization } }),
    ).toString('base64')
    const worked = api.calls.length
    const notified = await fromElsewhere(url, { 'payment-signature': rebuilt })
    t.match(notified, { status: 409, text: /for another caller/ })
    t.notMatch(JSON.stringify(notified), first.body._svc!.reviewToken)
    t.equal(api.calls.length, worked)
    t.equal((await present(url, rebuilt)).text, first.text, 'which is the very payment')
  },
)

t.test('the books agree with the chains', async (t) => {
  t.strictSame(
    (await product.doctor()).filter((finding) => !finding.ok),
    [],
  )
})
