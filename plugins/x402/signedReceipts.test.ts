import { decodePaymentRequiredHeader } from '@x402/core/http'
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  extractReceiptFromResponse,
  findAcceptsObjectFromSignedOffer,
  type SignedReceipt,
  verifyOfferSignatureEIP712,
  verifyReceiptMatchesOffer,
  verifyReceiptSignatureEIP712,
} from '@x402/extensions/offer-receipt'
import t, { type Test } from 'tap'
import { type Asset, builtInAssets } from '../../core/domain/asset.ts'
import { startGateway } from '../../test/helpers/gateway.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { sellerOf } from '../../test/helpers/sellerOf.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from '../../test/helpers/settler.ts'

const payer = '0x2222222222222222222222222222222222222222'
const usdc = builtInAssets.find(({ network }) => network === 'eip155:84532')!
const token: Asset = { ...usdc, address: `0x${'7'.repeat(40)}`, symbol: 'TOK', usdPerUnit: '2' }

async function startSigning(t: Test, signedReceipts = 'with-transaction', more: object = {}) {
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, {
    settlers: [settler],
    plugins: [
      { use: 'x402', with: { signedReceipts } },
      { use: 'replay-guard' },
      { use: 'upstream' },
      { use: 'purchase-record' },
    ],
    ...more,
  })
  const { address } = gateway.ports.receiptSigner
  let count = 0
  const payment = () => ({ 'payment-signature': scriptedPayment(`n-${count++}`, '100000') })
  return { settler, gateway, address, payment }
}

async function offersAt(url: string, init?: RequestInit) {
  const response = await fetch(url, init)
  const required = decodePaymentRequiredHeader(response.headers.get('payment-required')!)
  const offers = decodeSignedOffers(extractOffersFromPaymentRequired(required))
  return { status: response.status, required, offers, text: await response.text() }
}

const receiptOf = (response: Response) =>
  extractReceiptFromResponse(response) as (SignedReceipt & { format: 'eip712' }) | undefined

t.test('every entry of a 402 has an offer that the gateway has signed once', async (t) => {
  const { gateway, address } = await startSigning(t, 'on', { assets: [usdc, token] })
  const link = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  const { required, offers, text } = await offersAt(link.url)
  t.strictSame(JSON.parse(text), required, 'header and body are the same')
  t.equal(offers.length, 2)
  for (const [i, offer] of offers.entries()) {
    const { signer } = await verifyOfferSignatureEIP712(offer.signedOffer as never)
    t.equal(signer, address)
    t.equal(findAcceptsObjectFromSignedOffer(offer, required.accepts), required.accepts[i])
    t.equal(offer.resourceUrl, required.resource!.url)
    t.ok(offer.validUntil! * 1_000 >= Date.now() + 300_000)
  }
  for (const url of [link.url, link.url, `${link.url}/below?a=1`])
    t.strictSame((await offersAt(url)).offers, offers, url)
})

t.test('an offer is signed again before its time is over', async (t) => {
  let aheadMs = 0
  const adapt = (ports: object) => ({ ...ports, clock: { now: () => Date.now() + aheadMs } })
  const { gateway, address } = await startSigning(t, 'on', { adapt })
  const link = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  const first = (await offersAt(link.url)).offers[0]!
  for (aheadMs of [290_000, 310_000, 590_000, 610_000, 86_400_000]) {
    const { offers } = await offersAt(link.url)
    t.ok(offers[0]!.validUntil! * 1_000 >= Date.now() + aheadMs + 299_000, `after ${aheadMs} ms`)
    t.equal((await verifyOfferSignatureEIP712(offers[0]!.signedOffer as never)).signer, address)
    if (aheadMs === 290_000) t.strictSame(offers[0], first)
  }
})

t.test('a refused payment gets the signed offers again', async (t) => {
  const { gateway, address } = await startSigning(t)
  const link = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  const headers = { 'payment-signature': scriptedPayment('low', '99') }
  const { status, offers, required } = await offersAt(link.url, { headers })
  t.equal(status, 402)
  t.match(required.error, 'invalid_exact_evm_payload_authorization_value')
  t.equal((await verifyOfferSignatureEIP712(offers[0]!.signedOffer as never)).signer, address)
})

for (const settle of ['after', 'before'] as const)
  t.test(
    `a paid call has a signed receipt, and its repeat has the same one, settled ${settle}`,
    async (t) => {
      const { gateway, address, payment, settler } = await startSigning(t)
      const seller = await sellerOf(t, (_req, res) => void res.end('{}'))
      const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10', settle })
      const headers = payment()
      const bought = await fetch(`${link.url}?q=1`, { headers })
      t.equal(bought.status, 200)
      const receipt = receiptOf(bought)!
      t.equal((await verifyReceiptSignatureEIP712(receipt)).signer, address)
      const { offers } = await offersAt(link.url)
      t.ok(verifyReceiptMatchesOffer(receipt, offers[0]!, [payer]))
      const { transaction } = JSON.parse(
        Buffer.from(bought.headers.get('payment-response')!, 'base64').toString(),
      )
      t.equal(receipt.payload.transaction, transaction)
      await until(async () => {
        const { purchases } = await gateway.store.purchases.page(gateway.storeId, { limit: 1 })
        return purchases[0]!.status === 'delivered'
      }, 'the delivery')
      const again = await fetch(`${link.url}?q=1`, { headers })
      t.equal(again.headers.get('payment-response'), bought.headers.get('payment-response'))
      t.equal(settler.transfers.length, 1)
    },
  )

t.test('a receipt names the transaction only if the operator wants that', async (t) => {
  const { gateway, payment } = await startSigning(t, 'on')
  const seller = await startSeller(t, 'hello')
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  t.equal(receiptOf(await fetch(link.url, { headers: payment() }))!.payload.transaction, '')
  const off = await startSigning(t, 'off')
  const plain = await off.gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  t.strictSame((await offersAt(plain.url)).offers, [])
  t.equal(receiptOf(await fetch(plain.url, { headers: off.payment() })), undefined)
})

t.test('a seller that fails after the charge has no signed receipt for its buyer', async (t) => {
  const { gateway, payment } = await startSigning(t)
  for (const kind of ['status-500', 'status-404', 'reset'] as const) {
    const seller = await startSeller(t, kind)
    const link = await gateway.addLink({ slug: kind, url: seller.url, price: '0.10', settle: 'before' })
    const failed = await fetch(link.url, { headers: payment() })
    t.ok(failed.status >= 400)
    t.match(JSON.parse(Buffer.from(failed.headers.get('payment-response')!, 'base64').toString()), {
      success: true,
    })
    t.equal(receiptOf(failed), undefined, kind)
  }
})

t.test('the header of a 402 stays short enough: signed offers are dropped after bazaar', async (t) => {
  const assets = Array.from({ length: 12 }, (_, i) => ({
    ...token,
    address: `0x${String(i).padStart(40, '1')}`,
  }))
  const { gateway } = await startSigning(t, 'on', { assets })
  const described = { isPublic: true, methods: ['GET'], outputExample: 'x'.repeat(1_500) }
  const add = (slug: string, more: object = {}) =>
    gateway.addLink({ slug, url: 'http://127.0.0.1:1', price: '0.10', ...described, ...more })
  const many = await offersAt((await add('many')).url)
  t.strictSame(Object.keys(many.required.extensions!).sort(), ['bazaar', 'payment-identifier'])
  const { gateway: small } = await startSigning(t, 'on', { assets: assets.slice(0, 5) })
  const link = await small.addLink({ slug: 'few', url: 'http://127.0.0.1:1', price: '0.10', ...described })
  const few = await offersAt(link.url)
  t.strictSame(Object.keys(few.required.extensions!).sort(), [
    'bazaar',
    'offer-receipt',
    'payment-identifier',
  ])
  t.notOk('output' in (few.required.extensions!['bazaar'] as { info: object }).info)
  for (const { text } of [many, few]) t.ok(Buffer.byteLength(text) <= 9_200)
  const long = await offersAt(`${link.url}?q=${'x'.repeat(4_000)}`)
  t.equal(long.required.extensions, undefined, 'a long address leaves no room for extensions')
})

t.test('with its signed receipt the head of a paid response is one that clients read', async (t) => {
  const { gateway, payment } = await startSigning(t)
  for (let bytes = 13_000; bytes < 16_000; bytes += 150) {
    const seller = await sellerOf(t, (_req, res) => {
      res.setHeader('x-long', 'x'.repeat(bytes)).end('{}')
    })
    const link = await gateway.addLink({ slug: `head-${bytes}`, url: seller.url, price: '0.10' })
    const response = await fetch(link.url, { headers: payment() })
    if (response.status !== 200) t.match(response, { status: 502 })
    else t.ok(receiptOf(response) !== undefined, `${bytes}`)
  }
})
