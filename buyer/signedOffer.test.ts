import { createEIP712OfferReceiptIssuer } from '@x402/extensions/offer-receipt'
import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { PRICE, startEvmWorld } from '../test/helpers/buyer/evmWorld.ts'
import { type Answer, deliver, offer } from '../test/helpers/buyer/seller.ts'

const world = await startEvmWorld(t)

function issuerOf(account = privateKeyToAccount(generatePrivateKey())) {
  return createEIP712OfferReceiptIssuer('did:web:a.example#key', (data) =>
    account.signTypedData(data as Parameters<typeof account.signTypedData>[0]),
  )
}

const [own, other] = [issuerOf(), issuerOf()]
const inInfo = (info: object) => ({ extensions: { 'offer-receipt': { info } } })
const terms = {
  acceptIndex: 0,
  scheme: 'exact',
  network: world.chain.network,
  asset: world.chain.usdcAddress,
  payTo: world.payTo,
  amount: PRICE,
}
const receiptBy =
  (issuer: typeof own, change: { payer?: string; network?: string; url?: string } = {}) =>
  (url: string, transaction: string) =>
    issuer.issueReceipt(
      change.url ?? url,
      change.payer ?? world.buyer,
      change.network ?? world.chain.network,
      transaction,
    )

/** A seller with these signed offers, which signs a receipt by `sign`. */
const signing =
  (offersAt: (url: string) => Promise<object>[], sign: ReturnType<typeof receiptBy>): Answer =>
  async (request, response, { url }) => {
    if (request.payment === null) {
      const offers = await Promise.all(offersAt(url))
      return offer(response, world.offerFor(url, {}, inInfo({ offers })))
    }
    const transaction = await world.settle(request)
    deliver(response, world.receiptOf(transaction, inInfo({ receipt: await sign(url, transaction) })))
  }

t.test("the seller's signed receipt is part of the report", async (t) => {
  const run = await world.pay(signing((url) => [own.issueOffer(url, terms)], receiptBy(own)))
  t.match(run.report, { outcome: 'paid', warnings: [] })
  t.match(run.report.signedReceipt, { format: 'eip712', payload: { transaction: run.report.transaction } })
})

t.test('an entry that contradicts its signed offer is not paid', async (t) => {
  for (const change of [{ amount: '1' }, { payTo: world.buyer }]) {
    const run = await world.pay(
      signing((url) => [own.issueOffer(url, { ...terms, ...change })], receiptBy(own)),
    )
    t.match(run.report, { outcome: 'refused', message: /has signed other terms than its 402 demands/ })
    t.equal(run.signatures, 0)
  }
  const elsewhere = await world.pay(
    signing(() => [own.issueOffer('https://other.example/x', terms)], receiptBy(own)),
  )
  t.match(elsewhere.report, { outcome: 'refused', message: /is for https:\/\/other.example\/x/ })
})

t.test('offers that prove nothing are paid, with a warning', async (t) => {
  const jws = async () => ({ format: 'jws', signature: 'a.b.c' })
  const expired = (url: string) => own.issueOffer(url, { ...terms, offerValiditySeconds: -60 })
  for (const [offers, warning] of [
    [[jws], /cannot be checked. Expected format to be "eip712", got "jws"/],
    [[expired], /has expired/],
  ] as const) {
    const run = await world.pay(signing((url) => offers.map((make) => make(url)), receiptBy(own)))
    t.match(run.report, { outcome: 'paid', warnings: [warning], signedReceipt: { format: 'eip712' } })
  }
})

t.test('a receipt about another payment, or by another key than the offer, is not kept', async (t) => {
  for (const [sign, warning] of [
    [receiptBy(other), /has signed it, but 0x\w+ has signed the offer/],
    [receiptBy(own, { payer: world.payTo }), /payer is/],
    [receiptBy(own, { network: 'eip155:1' }), /network is eip155:1/],
    [receiptBy(own, { url: 'https://other.example' }), /resourceUrl is https:\/\/other.example/],
    [(url: string) => receiptBy(own)(url, `0x${'1'.repeat(64)}`), /transaction is 0x1/],
    [async () => ({ format: 'eip712', signature: '0x' }), /Expected payload to be an object/],
  ] as const) {
    const run = await world.pay(
      signing((url) => [own.issueOffer(url, terms)], sign as ReturnType<typeof receiptBy>),
    )
    t.match(run.report, { outcome: 'paid', signedReceipt: null, warnings: [warning] })
  }
})
