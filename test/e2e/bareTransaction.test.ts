import { Keypair, TransactionMessage, VersionedTransaction } from '@solana/web3.js'
import t from 'tap'
import { newBuyer, present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { startProduct } from './helpers/product.ts'

const chains = await startChains(t)
const product = await startProduct(t, {}, chains)
const solana = chains.both[1]
const price = 10_000n

/** The transaction inside a signed v2 payment. */
const bare = (payment: string): string => JSON.parse(atob(payment)).payload.transaction
const presentBare = async (url: string, value: string, header = 'x-payment') => {
  const response = await fetch(url, { headers: { [header]: value } })
  const body = (await response.json()) as {
    _svc?: { purchaseId: string }
    error?: { code: string; reason?: string; message: string }
  }
  return { status: response.status, headers: response.headers, body }
}
const sold = () => solana.balance(product.payTo(solana))

t.test('a bare transaction pays, and is the same payment in an envelope, in either order', async (t) => {
  const buyer = await newBuyer(chains, solana)
  for (const isBareFirst of [true, false]) {
    const url = `${await product.addLink(isBareFirst ? 'bare-first' : 'bare-second')}?n=paid`
    const other = await product.addLink(isBareFirst ? 'bare-other' : 'bare-another')
    const payment = await buyer.sign(url)
    const before = await sold()
    const inBoth = [() => presentBare(url, bare(payment)), () => present(url, payment)]
    const [first, second] = isBareFirst ? inBoth : inBoth.reverse()
    const bought = await first!()
    t.equal(bought.status, 200)
    const again = await second!()
    t.equal(again.status, 200)
    t.equal(again.body._svc?.purchaseId, bought.body._svc?.purchaseId, 'one purchase')
    t.equal((await presentBare(other, bare(payment))).status, 409, 'one payment buys one call')
    t.equal((await present(other, payment)).status, 409)
    t.equal((await sold()) - before, price, 'one transfer')
    t.equal(product.api.calls.filter((target) => url.endsWith(target)).length, 1)
  }
})

t.test('its receipt is where clients of X-PAYMENT look for it', async (t) => {
  const buyer = await newBuyer(chains, solana)
  const url = await product.addLink('bare-receipt')
  const { headers } = await presentBare(url, bare(await buyer.sign(url)))
  t.match(JSON.parse(atob(headers.get('x-payment-response')!)), { success: true, payer: buyer.address })
})

t.test(
  'a bare transaction that pays something else, or is not signed, is refused with a reason',
  async (t) => {
    const buyer = await newBuyer(chains, solana)
    const url = await product.addLink('bare-refused')
    const before = await sold()
    const refused = async (value: string, reason: RegExp, header?: string) =>
      t.match(await presentBare(url, value, header), {
        status: 400,
        body: { error: { code: 'invalid_payment', reason } },
      })
    await refused(bare(await buyer.sign(url, undefined, { amount: '9999' })), /amount_mismatch/)
    await refused(bare(await buyer.sign(url, undefined, { payTo: buyer.address })), /recipient_mismatch/)
    const good = bare(await buyer.sign(url))
    const unsigned = Buffer.from(good, 'base64')
    unsigned.fill(0, 65, 129)
    await refused(unsigned.toString('base64'), /signature_invalid/)
    await refused(good, /invalid_payload/, 'payment-signature')

    // With the buyer as fee payer it could land without the gateway.
    const owner = Keypair.generate()
    const message = TransactionMessage.decompile(
      VersionedTransaction.deserialize(Buffer.from(good, 'base64')).message,
    )
    const own = new VersionedTransaction(
      new TransactionMessage({
        payerKey: owner.publicKey,
        recentBlockhash: message.recentBlockhash,
        instructions: message.instructions.slice(0, 2),
      }).compileToV0Message(),
    )
    own.sign([owner])
    await refused(Buffer.from(own.serialize()).toString('base64'), /fee_payer_mismatch/)
    t.equal(await sold(), before)
  },
)

t.test('junk in X-PAYMENT is never bought with and never breaks anything', async (t) => {
  const buyer = await newBuyer(chains, solana)
  const url = `${await product.addLink('bare-junk')}?n=junk`
  const good = Buffer.from(bare(await buyer.sign(url)), 'base64')
  const before = await sold()
  let seed = 1
  const random = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % below
  }
  for (let i = 0; i < 150; i++) {
    const junk = Buffer.from(good)
    const cut = i % 3 === 0 ? junk.subarray(0, random(junk.length)) : junk
    if (i % 3 !== 0) cut[random(cut.length)]! ^= 1 << random(8)
    if (i % 3 === 2) cut[random(cut.length)]! ^= 1 << random(8)
    if (cut.equals(good)) continue
    const { status } = await presentBare(url, cut.toString('base64'))
    t.ok(status === 400 || (status === 402 && cut.length === 0), `${status} for ${cut.toString('hex')}`)
  }
  t.equal(await sold(), before)
  t.equal(product.api.calls.filter((target) => url.endsWith(target)).length, 0)
})

t.test('a link that is not paid on Solana says so', async (t) => {
  const buyer = await newBuyer(chains, solana)
  const url = await product.addLink('bare-evm-only')
  const payment = bare(await buyer.sign(url))
  const response = await fetch(`${product.url}/api/v1/profile`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${product.store.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ payout: { solana: null } }),
  })
  t.equal(response.status, 200)
  t.match(await presentBare(url, payment), {
    status: 400,
    body: { error: { code: 'invalid_payment', reason: 'invalid_network', message: /not paid on Solana/ } },
  })
})
