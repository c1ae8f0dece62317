import {
  appendPaymentIdentifierToExtensions,
  extractAndValidatePaymentIdentifier,
  isPaymentIdentifierExtension,
  isPaymentIdentifierRequired,
  isValidPaymentId,
  PAYMENT_IDENTIFIER,
  validatePaymentIdentifier,
} from '@x402/extensions/payment-identifier'
import fc from 'fast-check'
import t from 'tap'
import { encodeHeader, readPayment } from './header.ts'
import { identifierName, identifierOffer, readIdentifier } from './paymentIdentifier.ts'

const accepted = { scheme: 'exact', network: 'eip155:84532' }
const paymentWith = (extensions: unknown) => ({ x402Version: 2, accepted, payload: {}, extensions })
const read = (extensions: unknown) => readPayment(encodeHeader(paymentWith(extensions)))
const withId = (id: unknown) => ({ [identifierName]: { info: { required: false, id } } })

t.test(
  "the official client takes the offer, and the official validator takes the client's answer",
  async (t) => {
    t.equal(identifierName, PAYMENT_IDENTIFIER)
    t.ok(isPaymentIdentifierExtension(identifierOffer))
    t.notOk(isPaymentIdentifierRequired(identifierOffer))
    t.strictSame(validatePaymentIdentifier(identifierOffer), { valid: true })
    const offered = () => structuredClone({ [identifierName]: identifierOffer }) as Record<string, unknown>
    for (const id of [undefined, 'a'.repeat(16), 'Z-_9'.repeat(32)]) {
      const extensions = appendPaymentIdentifierToExtensions(offered(), id)
      t.strictSame(validatePaymentIdentifier(extensions[identifierName]), { valid: true })
      const found = read(extensions)
      t.ok(found.ok && isValidPaymentId(found.payment.identifier!))
      if (id !== undefined) t.match(found, { payment: { identifier: id } })
    }
    // The schema itself says the form, beside what the validator knows.
    for (const id of ['short', 'x'.repeat(129), 'with space 0123456', 7])
      t.equal(
        validatePaymentIdentifier({ info: { required: false, id }, schema: identifierOffer.schema }).valid,
        false,
      )
    t.ok(JSON.stringify({ [identifierName]: identifierOffer }).length < 140, 'every unpaid call transfers it')
  },
)

t.test('a client that sends the extension back as it was has given no id', async (t) => {
  const none = [
    { [identifierName]: identifierOffer },
    {},
    null,
    undefined,
    'text',
    [],
    { [identifierName]: null },
  ]
  for (const extensions of none) {
    const found = read(extensions)
    t.match(found, { ok: true })
    t.notOk(found.ok && 'identifier' in found.payment, JSON.stringify(extensions))
  }
})

t.test('an id in another form is refused, and the refusal says the form and not the id', async (t) => {
  const malformed = ['', 'a'.repeat(15), 'a'.repeat(129), `${'a'.repeat(16)}\n`, `${'a'.repeat(16)}\u0000`]
  for (const id of [
    ...malformed,
    'ümlaut-0123456789',
    'a b'.repeat(8),
    16,
    null,
    true,
    ['a'.repeat(16)],
    {},
  ]) {
    const found = read(withId(id))
    t.match(found, {
      ok: false,
      message: /extensions\["payment-identifier"\]\.info\.id must be a string of 16 to 128/,
    })
    if (typeof id === 'string' && id !== '') t.notMatch(found, { message: id })
  }
  for (const extension of [
    'a'.repeat(16),
    1,
    [],
    { info: 'a'.repeat(16) },
    { info: null },
    { id: 'a'.repeat(16) },
  ])
    t.match(read({ [identifierName]: extension }), { ok: false }, JSON.stringify(extension))
})

t.test('for every text it says of an id what the official package says', async () => {
  const char = fc.oneof(
    fc.constantFrom(...'aZ09-_'),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  )
  const word = fc.constantFrom(...'abcXYZ019-_')
  const id = fc.oneof(
    fc.string({ unit: word, minLength: 14, maxLength: 20 }),
    fc.string({ unit: word, minLength: 126, maxLength: 130 }),
    fc.array(char, { minLength: 14, maxLength: 20 }).map((chars) => chars.join('')),
    fc.jsonValue(),
  )
  fc.assert(
    fc.property(id, (id) => readIdentifier(withId(id)) === (isValidPaymentId(id as string) ? id : null)),
    { numRuns: 2_000 },
  )
})

t.test('no extensions throw, and an id that the official package finds is found', async () => {
  const info = fc.record({
    required: fc.boolean(),
    id: fc.oneof(fc.constant('a'.repeat(20)), fc.jsonValue()),
  })
  const extension = fc.oneof(
    fc.jsonValue(),
    info.map((info) => ({ info })),
    fc.jsonValue().map((info) => ({ info })),
  )
  const extensions = fc.oneof(
    fc.jsonValue(),
    extension.map((one) => ({ [identifierName]: one })),
  )
  fc.assert(
    fc.property(extensions, (extensions) => {
      fc.pre(!JSON.stringify(extensions ?? null).includes('__proto__'))
      const found = read(extensions)
      const { id } = extractAndValidatePaymentIdentifier(paymentWith(extensions) as never)
      return id === null ? typeof found.ok === 'boolean' : found.ok && found.payment.identifier === id
    }),
    { numRuns: 2_000 },
  )
})
