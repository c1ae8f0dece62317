import {
  createEIP712OfferReceiptIssuer,
  verifyOfferSignatureEIP712,
  verifyReceiptSignatureEIP712,
} from '@x402/extensions/offer-receipt'
import fc from 'fast-check'
import t from 'tap'
import { createReceiptSigner } from '../../adapters/chains/evm/receiptSigner.ts'
import { createSealer } from '../../adapters/secrets/sealer.ts'
import { type OfferPayload, type ReceiptPayload, signOffer, signReceipt } from './offerReceipt.ts'

const signer = createReceiptSigner(createSealer(Buffer.alloc(32, 7)))

const text = fc.string({ unit: 'grapheme', maxLength: 80 })
const seconds = fc.integer({ min: 0, max: 2 ** 40 })
const offers: fc.Arbitrary<OfferPayload> = fc.record({
  version: fc.constant(1),
  resourceUrl: text,
  scheme: text,
  network: text,
  asset: text,
  payTo: text,
  amount: text,
  validUntil: seconds,
})
const receipts: fc.Arbitrary<ReceiptPayload> = fc.record({
  version: fc.constant(1),
  network: text,
  resourceUrl: text,
  payer: text,
  issuedAt: seconds,
  transaction: text,
})

t.test("the package recovers the gateway's address from every offer and receipt", async (t) => {
  await fc.assert(
    fc.asyncProperty(offers, receipts, async (offer, receipt) => {
      t.equal((await verifyOfferSignatureEIP712(signOffer(signer, offer, 0))).signer, signer.address)
      t.equal((await verifyReceiptSignatureEIP712(signReceipt(signer, receipt))).signer, signer.address)
    }),
    { numRuns: 50 },
  )
})

t.test('a changed field is not signed by the gateway', async (t) => {
  await fc.assert(
    fc.asyncProperty(offers, receipts, fc.nat(), text, async (offer, receipt, which, other) => {
      const changed = <P extends object>(payload: P): P => {
        const fields = Object.keys(payload)
        const field = fields[which % fields.length]! as keyof P
        const value = payload[field]
        return { ...payload, [field]: typeof value === 'number' ? value + 1 : `${value}${other}x` }
      }
      const [o, r] = [signOffer(signer, offer, 0), signReceipt(signer, receipt)]
      t.not((await verifyOfferSignatureEIP712({ ...o, payload: changed(offer) })).signer, signer.address)
      t.not((await verifyReceiptSignatureEIP712({ ...r, payload: changed(receipt) })).signer, signer.address)
    }),
    { numRuns: 50 },
  )
})

t.test('an offer and a receipt have the bytes that the package signs', async (t) => {
  const { privateKeyToAccount } = await import('viem/accounts')
  const sealer = createSealer(Buffer.alloc(32, 7))
  const account = privateKeyToAccount(`0x${sealer.mac('receipt key', '').toString('hex')}`)
  t.equal(account.address, signer.address)
  const issuer = createEIP712OfferReceiptIssuer('did:web:a.example#receipts', (data) =>
    account.signTypedData(data as Parameters<typeof account.signTypedData>[0]),
  )
  const theirs = await issuer.issueReceipt('https://a.example/x', account.address, 'eip155:8453', '0xabc')
  t.strictSame(signReceipt(signer, (theirs as ReturnType<typeof signReceipt>).payload), theirs)
  const offered = await issuer.issueOffer('https://a.example/x', {
    acceptIndex: 1,
    scheme: 'exact',
    network: 'eip155:8453',
    asset: '0xa',
    payTo: '0xb',
    amount: '1000',
  })
  t.strictSame(signOffer(signer, (offered as ReturnType<typeof signOffer>).payload, 1), offered)
})
