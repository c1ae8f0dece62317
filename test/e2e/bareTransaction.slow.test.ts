import { Keypair } from '@solana/web3.js'
import t from 'tap'
import { tokenProgramAddress } from '../../core/solana/addresses.ts'
import {
  type SignedSolana,
  signAgain,
  signSolana,
  submitSolana,
  transferInstruction,
} from '../helpers/localnet/sendToken.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { eventually } from './helpers/eventually.ts'
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
    error?: { code: string; reason?: string; message: string } | string
  }
  return { status: response.status, headers: response.headers, body }
}
/** The answer to a refused payment of version 1, beside its reason. */
const ofVersion1 = { x402Version: 1, code: 'invalid_payment', message: /\S/, accepts: [{}] }
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
    const refused = async (value: string, error: RegExp) =>
      t.match(await presentBare(url, value), { status: 402, body: { ...ofVersion1, error } })
    await refused(bare(await buyer.sign(url, undefined, { amount: '9999' })), /amount_mismatch/)
    await refused(bare(await buyer.sign(url, undefined, { payTo: buyer.address })), /recipient_mismatch/)
    const good = bare(await buyer.sign(url))
    const unsigned = Buffer.from(good, 'base64')
    unsigned.fill(0, 65, 129)
    await refused(unsigned.toString('base64'), /signature_invalid/)
    t.match(await presentBare(url, good, 'payment-signature'), {
      status: 400,
      body: { error: { code: 'invalid_payment', reason: 'invalid_payload' } },
    })

    t.equal(await sold(), before)
  },
)

/** A wallet of the time before x402: it signs a transfer wholly, and pays its fee. */
function newOldBuyer() {
  const wallet = Keypair.generate()
  const address = wallet.publicKey.toBase58()
  chains.solana.mintUsdc(address, 1_000_000n)
  return {
    wallet,
    sign: () =>
      signSolana(
        chains.solana,
        [wallet],
        [
          transferInstruction(chains.solana, tokenProgramAddress.token, {
            from: address,
            to: product.payTo(solana),
            amountAtomic: price,
          }),
        ],
        'legacy',
      ),
  }
}
const callsOf = (url: string) => product.api.calls.filter((target) => url.endsWith(target)).length
const envelope = ({ base64 }: SignedSolana, version: 1 | 2, network: string) => {
  const named = { scheme: 'exact', network }
  const where = version === 2 ? { accepted: named } : named
  return btoa(JSON.stringify({ x402Version: version, ...where, payload: { transaction: base64 } }))
}

t.test('a transfer that the buyer signed wholly pays, once, whoever presents it how often', async (t) => {
  const { wallet, sign } = newOldBuyer()
  const url = `${await product.addLink('own')}?n=own`
  const elsewhere = await product.addLink('own-elsewhere')
  const before = await sold()
  const signed = await sign()
  const first = await presentBare(url, signed.base64)
  t.equal(first.status, 200, JSON.stringify(first.body))
  t.match(JSON.parse(atob(first.headers.get('x-payment-response')!)), {
    success: true,
    transaction: signed.signature,
    payer: wallet.publicKey.toBase58(),
  })
  for (const { base64 } of [signed, signAgain(signed, wallet)]) {
    const again = await presentBare(url, base64)
    t.equal(again.status, 200)
    t.equal(again.body._svc?.purchaseId, first.body._svc?.purchaseId)
    t.equal((await presentBare(elsewhere, base64)).status, 409)
  }
  t.equal((await sold()) - before, price)
  t.equal(callsOf(url), 1)
})

t.test('forty presentations at once, by two signatures, are one purchase and one call', async (t) => {
  const { wallet, sign } = newOldBuyer()
  const url = `${await product.addLink('own-at-once')}?n=at-once`
  const before = await sold()
  const signed = await sign()
  const other = signAgain(signed, wallet)
  const responses = await Promise.all(
    Array.from({ length: 40 }, (_, i) => presentBare(url, (i % 2 === 0 ? signed : other).base64)),
  )
  const bought = responses.filter(({ status }) => status === 200)
  t.ok(bought.length > 0)
  t.same([...new Set(bought.map(({ body }) => body._svc?.purchaseId))].length, 1)
  t.ok(
    responses.every(({ status }) => [200, 409, 503].includes(status)),
    responses.map(({ status }) => status).join(),
  )
  t.equal((await sold()) - before, price)
  t.equal(callsOf(url), 1)
})

t.test('one that is on chain already, or that stands in an envelope, buys nothing', async (t) => {
  const { wallet, sign } = newOldBuyer()
  const url = `${await product.addLink('own-refused')}?n=own-refused`
  const landed = await sign()
  await submitSolana(chains.solana, landed)
  const refused = async (value: string, error: string) =>
    t.match(await presentBare(url, value), { status: 402, body: { ...ofVersion1, error } })
  await refused(landed.base64, 'duplicate_settlement')
  await refused(signAgain(landed, wallet).base64, 'duplicate_settlement')
  // Signed over the same block hash it would be the one that has landed.
  const fresh = await eventually(async () => {
    const signed = await sign()
    return signed.signature === landed.signature ? undefined : signed
  })
  const feePayer = 'invalid_exact_svm_fee_payer_mismatch'
  await refused(envelope(fresh, 1, 'solana-devnet'), feePayer)
  t.match(await presentBare(url, envelope(fresh, 2, solana.network), 'payment-signature'), {
    status: 402,
    body: { x402Version: 2, error: { code: 'invalid_payment', reason: feePayer }, accepts: [{}, {}] },
  })
  const before = await sold()
  t.equal((await presentBare(url, fresh.base64)).status, 200, 'which leaves it as good as before')
  t.equal((await sold()) - before, price)
  t.equal(callsOf(url), 1)
})

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
    t.ok([400, 402].includes(status), `${status} for ${cut.toString('hex')}`)
  }
  t.equal(await sold(), before)
  t.equal(product.api.calls.filter((target) => url.endsWith(target)).length, 0)
})

t.test('a link that is not paid on Solana says so', async (t) => {
  const buyer = await newBuyer(chains, solana)
  const url = await product.addLink('bare-evm-only')
  const payment = bare(await buyer.sign(url))
  await product.setPayout({ solana: null })
  await eventually(async () => ((await (await fetch(url)).text()).includes('solana:') ? undefined : true))
  t.match(await presentBare(url, payment), {
    status: 402,
    body: { ...ofVersion1, error: 'invalid_network', message: /cannot be paid on Solana/ },
  })
})
