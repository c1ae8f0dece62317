import { createEIP712OfferReceiptIssuer } from '@x402/extensions/offer-receipt'
import fc from 'fast-check'
import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { encodeHeader } from '../../core/x402/header.ts'
import { DocumentFault, readDocument, readDocuments } from './signedDocument.ts'

const account = privateKeyToAccount(generatePrivateKey())
const issuer = createEIP712OfferReceiptIssuer('did:web:a.example#key', (data) =>
  account.signTypedData(data as Parameters<typeof account.signTypedData>[0]),
)
const url = 'https://a.example/x'
const receipt = (await issuer.issueReceipt(url, account.address, 'eip155:8453', '0xabc')) as Signed
const offer = (await issuer.issueOffer(url, {
  acceptIndex: 0,
  scheme: 'exact',
  network: 'eip155:8453',
  asset: '0xa',
  payTo: '0xb',
  amount: '1000',
})) as Signed

interface Signed {
  readonly format: string
  readonly payload: Readonly<Record<string, string | number>>
  readonly signature: string
}

t.test("the package's offers and receipts are read in every form in which they come", async (t) => {
  const info = (content: object) => ({ extensions: { 'offer-receipt': { info: content } } })
  for (const [document, kind] of [
    [receipt, 'receipt'],
    [offer, 'offer'],
    [{ success: true, data: receipt }, 'receipt'],
    [{ outcome: 'paid', signedReceipt: receipt }, 'receipt'],
    [{ success: true, ...info({ receipt }) }, 'receipt'],
    [{ x402Version: 2, accepts: [], ...info({ offers: [offer] }) }, 'offer'],
  ] as const)
    for (const text of [JSON.stringify(document, null, 2), `${encodeHeader(document)}\n`]) {
      const [read, ...others] = await readDocuments(Buffer.from(text))
      t.match(read, { kind, signer: account.address, payload: { resourceUrl: url } })
      t.strictSame(others, [])
    }
})

t.test(
  'a document with a changed field has another signer, or is refused with the name of the field',
  async (t) => {
    const value = fc.oneof(
      fc.string(),
      fc.integer(),
      fc.constant(null),
      fc.constant({}),
      fc.constant(undefined),
    )
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(receipt, offer), fc.nat(), value, async (document, which, other) => {
        const names = Object.keys(document.payload)
        const name = names[which % names.length]!
        fc.pre(other !== document.payload[name])
        // An absent optional field has the same meaning as the empty one.
        fc.pre(!(name === 'transaction' || name === 'validUntil') || other !== undefined)
        const payload = { ...document.payload, [name]: other }
        try {
          t.not((await readDocument({ ...document, payload })).signer, account.address)
        } catch (error) {
          t.ok(error instanceof DocumentFault)
          t.match((error as Error).message, name === 'payer' ? /payer|amount|scheme/ : name)
        }
      }),
    )
  },
)

t.test('what is no signed document is refused, and the message says what was expected', async (t) => {
  for (const [document, message] of [
    [{ ...receipt, format: 'jws' }, /format to be "eip712"/],
    [{ ...receipt, signature: '0x12' }, /signature to be 65 bytes/],
    [{ ...receipt, payload: 7 }, /payload to be an object/],
    [{ ...receipt, payload: { ...receipt.payload, version: 2 } }, /payload.version to be 1, got 2/],
    [{ ...receipt, payload: { ...receipt.payload, payer: 'me' } }, /payload.payer to be an address/],
    [{ ...receipt, payload: { ...receipt.payload, resourceUrl: 'x' } }, /payload.resourceUrl/],
    [{ ...receipt, signature: `0x${'0'.repeat(130)}` }, /signature/],
    [{}, /got a text that contains none/],
    [[receipt], /got a text that contains none/],
  ] as const)
    await t.rejects(readDocuments(Buffer.from(JSON.stringify(document))), { name: 'DocumentFault', message })
  await t.rejects(readDocuments(Buffer.from('no')), { message: /Expected JSON/ })
})
