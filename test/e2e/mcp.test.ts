import { once as onceTold } from 'node:events'
import { request } from 'node:http'
import { json } from 'node:stream/consumers'
import t from 'tap'
import { connectMcp } from '../helpers/admin-api/mcp/connectMcp.ts'
import { answerWell, responseStatus } from './helpers/api.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import type { Chain } from './helpers/chains.ts'
import { startProduct } from './helpers/product.ts'

/** Tools over the one public address, paid on real chains with payments that the public client's code signs. */
const product = await startProduct(t)
const { chains, api, payTo, tollgate, url } = product
const payloadOf = (header: string) => JSON.parse(Buffer.from(header, 'base64').toString())
const seen = async (chain: Chain) => ({
  transfers: (await chain.transfersTo(payTo(chain))).length,
  purchases: (await tollgate.stack.store.purchases.ledgerCheck()).purchases,
  calls: api.calls.length,
})
const since = async (chain: Chain, before: Awaited<ReturnType<typeof seen>>) => {
  const now = await seen(chain)
  return {
    transfers: now.transfers - before.transfers,
    purchases: now.purchases - before.purchases,
    calls: now.calls - before.calls,
  }
}
const once = { transfers: 1, purchases: 1, calls: 1 }
const nothing = { transfers: 0, purchases: 0, calls: 0 }

for (const chain of chains.both) {
  const link = await product.addLink(`mcp-${chain.name}`)
  const buyer = await newBuyer(chains, chain)
  /** The offer that the tool gives, with the entry of this chain alone. */
  const offerOf = (structured: { accepts: { network: string; asset: string }[] }) => ({
    ...(structured as object),
    accepts: structured.accepts.filter(
      ({ network, asset }) => network === chain.network && asset === chain.usdc,
    ),
  })

  t.test(`an agent buys a call with what the tool told it on ${chain.name}, and reviews it`, async (t) => {
    const { call } = await connectMcp(t, url)
    const before = await seen(chain)
    const args = { link, query: { n: 'one' } }
    const unpaid = await call('call_link', args)
    t.ok(unpaid.isError)
    t.strictSame(JSON.parse(unpaid.content[0]!.text), unpaid.structuredContent)
    t.strictSame(unpaid._meta['x402/error'], unpaid.structuredContent)
    t.match(unpaid.structuredContent, { x402Version: 2, resource: { url: `${link}?n=one` } })
    t.strictSame(await since(chain, before), nothing)

    const header = await buyer.signOffer(offerOf(unpaid.structuredContent) as never)
    const paid = await call('call_link', args, payloadOf(header))
    t.notOk(paid.isError, JSON.stringify(paid.structuredContent))
    t.match(paid.structuredContent, { status: 200, isWhole: true, response: { target: /\?n=one$/ } })
    t.strictSame(JSON.parse(paid.content[0]!.text), paid.structuredContent.response, 'the answer comes first')
    const receipt = paid._meta['x402/payment-response']
    t.equal(paid.structuredContent.transaction, receipt.transaction)
    t.equal(paid.structuredContent.network, chain.network)
    t.match(receipt, { success: true, network: chain.network, payer: buyer.address })
    t.ok((await chain.transfersTo(payTo(chain))).includes(receipt.transaction))
    t.strictSame(await since(chain, before), once)

    const again = await call('call_link', { ...args, payment: header })
    t.strictSame(again.structuredContent, paid.structuredContent, 'as an argument too, and for nothing')
    const asText = await call('call_link', args, header)
    t.strictSame(asText.structuredContent, paid.structuredContent, 'and as the text of the header')
    const { purchaseId, reviewToken } = paid.structuredContent
    const review = { purchaseId, token: reviewToken, wallet: buyer.address, positive: true }
    t.match((await call('submit_review', review)).structuredContent, { reviewId: String })
    const twice = await call('submit_review', review)
    t.match(twice.structuredContent, { error: { code: 'ALREADY_REVIEWED', action: String } })
    t.match((await call('get_link', { link })).structuredContent, { reviews: { total: 1, rating: 100 } })
    t.strictSame(await since(chain, before), once)
  })

  t.test(`one payment on ${chain.name}, used by tool and over HTTP at once, is one call`, async (t) => {
    const clients = await Promise.all([1, 2, 3].map(() => connectMcp(t, url)))
    const header = await buyer.sign(`${link}?n=race`)
    const before = await seen(chain)
    const [byTool, overHttp] = await Promise.all([
      Promise.all(
        clients.map(({ call }) => call('call_link', { link, query: { n: 'race' } }, payloadOf(header))),
      ),
      Promise.all([1, 2, 3].map(() => present(`${link}?n=race`, header))),
    ])
    t.strictSame(await since(chain, before), once)
    for (const { structuredContent, _meta } of byTool) {
      t.match(structuredContent, { status: 200, response: overHttp[0]!.body.data })
      t.equal(structuredContent.purchaseId, overHttp[0]!.body._svc!.purchaseId)
      t.strictSame(_meta['x402/payment-response'], overHttp[0]!.receipt)
    }
    for (const { text } of overHttp) t.equal(text, overHttp[0]!.text)
    const { accepted, payload } = payloadOf(header)
    const network = chain.name === 'evm' ? 'base-sepolia' : 'solana-devnet'
    const ofVersion1 = { x402Version: 1, scheme: accepted.scheme, network, payload }
    const older = await clients[0]!.call('call_link', { link, query: { n: 'race' } }, ofVersion1)
    t.strictSame(older.structuredContent, byTool[0]!.structuredContent, 'in the envelope of version 1, too')
    t.match(older._meta['x402/payment-response'], { success: true, network })
    const other = await clients[0]!.call('call_link', { link, query: { n: 'other' } }, payloadOf(header))
    t.match(other, { isError: true, structuredContent: { error: { code: 'payment_already_used' } } })
    t.match(other._meta['x402/payment-response'], { success: false })
    t.strictSame(await since(chain, before), once)
  })

  t.test(
    `an agent whose address changes has its answer by the key that it sent, on ${chain.name}`,
    async (t) => {
      const { call } = await connectMcp(t, url)
      const args = {
        link,
        query: { n: 'moving' },
        headers: { 'Idempotency-Key': `key-of-an-agent-${chain.name}` },
      }
      const header = await buyer.sign(`${link}?n=moving`)
      const before = await seen(chain)
      const paid = await call('call_link', args, payloadOf(header))
      t.match(paid.structuredContent, { status: 200 })
      const elsewhere = async (headers: Record<string, string>) => {
        const sent = request(`${link}?n=moving`, {
          ...{ localAddress: '127.0.0.2', headers: { ...headers, 'payment-signature': header } },
        })
        const [response] = await onceTold(sent.end(), 'response')
        return { status: response.statusCode, body: await json(response) }
      }
      t.match(await elsewhere(args.headers), { status: 200, body: { data: paid.structuredContent.response } })
      t.match(await elsewhere({}), { status: 409 })
      t.strictSame(await since(chain, before), once)
    },
  )

  t.test(`whom nothing was sold is not charged on ${chain.name}, and hears why`, async (t) => {
    const { call } = await connectMcp(t, url)
    const header = await buyer.sign(`${link}?n=failing`)
    const before = await seen(chain)
    const args = { link, query: { n: 'failing' } }
    api.answerWith(responseStatus(500))
    const failed = await call('call_link', args, payloadOf(header))
    t.match(failed.structuredContent, { error: { code: 'upstream_error', action: String } })
    t.equal((await since(chain, before)).transfers, 0)
    api.answerWith(answerWell)
    t.notOk((await call('call_link', args, payloadOf(header))).isError, 'the payment is good still')
    t.equal((await since(chain, before)).transfers, 1)
    const { accepted, payload, ...rest } = payloadOf(header)
    for (const bad of [{}, [], 'x', 1, null, { ...rest, accepted, payload: {} }, { ...rest, payload }]) {
      const { isError, structuredContent } = await call('call_link', args, bad)
      t.ok(isError)
      t.match(structuredContent.error.code, /^(?:invalid_payment|VALIDATION_ERROR)$/, JSON.stringify(bad))
    }
    const both = await call('call_link', { ...args, payment: header }, payloadOf(header))
    t.match(both.structuredContent, { error: { code: 'VALIDATION_ERROR' } })
    t.equal((await since(chain, before)).transfers, 1)
  })
}
