import { createPublicKey } from 'node:crypto'
import { verifyReceiptSignatureEIP712 } from '@x402/extensions/offer-receipt'
import t from 'tap'
import { createReceiptSigner } from '../../adapters/chains/evm/receiptSigner.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

const reviewToken = 'a-token-of-a-buyer'

t.test("seller and buyer get the same receipt, signed by the origin's published key", async (t) => {
  const f = await startAdmin(t)
  const { key, username, id: storeId } = await f.store()
  const { body: made } = await f.call('POST', '/api/v1/links', {
    key,
    body: { url: await f.seller(), title: 'Weather', slug: 'weather' },
  })
  const sale = { storeId, linkId: made.data.id, amount: '0.1', atMs: f.clock.nowMs, reviewToken }
  const id = await sell(f.db, { ...sale, state: 'delivered' })
  const path = `/api/v1/purchases/${id}/receipt`
  const ofSeller = await f.call('GET', path, { key })
  t.equal(ofSeller.status, 200)
  t.equal(ofSeller.headers['content-disposition'], `attachment; filename="receipt-${id}.json"`)
  const ofBuyer = await f.call('GET', path, { headers: { 'x-review-token': reviewToken } })
  t.strictSame(ofBuyer.body, ofSeller.body)
  const receipt = ofSeller.body.data
  const { txHash } = (await f.call('GET', `/api/v1/purchases/${id}`, { key })).body.data
  t.match(receipt.payload, {
    network: 'eip155:84532',
    resourceUrl: `https://pay.example/api/link/${username}/weather`,
    payer: '0x00000000000000000000000000000000000000b1',
    transaction: txHash,
  })
  const published = JSON.parse((await f.call('GET', '/.well-known/did.json')).text)
  const { signer } = await verifyReceiptSignatureEIP712(receipt)
  t.equal(published.id, 'did:web:pay.example')
  t.equal(published.verificationMethod[1].blockchainAccountId, `eip155:1:${signer}`)
  const { publicKeyJwk } = published.verificationMethod[0]
  const jwk = createPublicKey({ key: publicKeyJwk, format: 'jwk' }).export({ format: 'jwk' })
  t.equal(jwk.x, Buffer.from(createReceiptSigner(f.sealer).publicKey.subarray(1, 33)).toString('base64url'))
})

t.test('a stranger gets no receipt, and an undelivered purchase has none', async (t) => {
  const f = await startAdmin(t)
  const { key, id: storeId } = await f.store()
  const other = await f.store()
  const link = await f.call('POST', '/api/v1/links', { key, body: { url: await f.seller(), title: 'A' } })
  const sale = { storeId, linkId: link.body.data.id, amount: '0.1', atMs: f.clock.nowMs, reviewToken }
  const delivered = `/api/v1/purchases/${await sell(f.db, { ...sale, state: 'delivered' })}/receipt`
  t.equal((await f.call('GET', delivered)).status, 401)
  t.equal((await f.call('GET', delivered, { key: other.key })).status, 404)
  t.equal((await f.call('GET', delivered, { headers: { 'x-review-token': 'wrong' } })).status, 404)
  for (const state of ['settled', 'refund_due'] as const) {
    const path = `/api/v1/purchases/${await sell(f.db, { ...sale, state })}/receipt`
    t.match(await f.call('GET', path, { key }), { status: 409, body: { error: { code: 'CONFLICT' } } }, state)
  }
})
