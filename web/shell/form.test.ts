import t from 'tap'
import { ApiFault } from './api.ts'
import { addressWords, readFault } from './form.ts'

const words = {
  url: { ...addressWords('Enter the address.'), API_NOT_RESPONDING: 'It does not answer.' },
  tags: { expected: 'Enter words.' },
  'socials[].url': { expected: 'Enter the address of the page.' },
}
const refused = (...details: (readonly [string, string, string])[]) =>
  new ApiFault(400, {
    code: 'VALIDATION_ERROR',
    message: 'url: Expected a JSON string.',
    requestId: 'r-1',
    details: details.map(([path, code, message]) => ({ path, code, message })),
  })

t.test('what is refused stands at its field in the sentence of the form, once', async (t) => {
  const fault = refused(['url', 'required', 'This field is required.'], ['url', 'format', 'Expected a URL.'])
  t.strictSame(readFault(fault, words), { at: { url: 'Enter the address.' }, line: undefined })
  const listed = refused(['tags[2]', 'format', 'no'], ['socials[1].url', 'scheme', 'no'])
  t.strictSame(readFault(listed, words).at, {
    tags: 'Enter words.',
    'socials[1].url': 'Enter the address of the page.',
  })
})

t.test(
  'a code that says more than the form keeps the words of the API, or has a sentence of its own',
  async (t) => {
    const long = 'At most 200 characters are allowed, got 250.'
    t.strictSame(readFault(refused(['url', 'too_long', long]), words).at, { url: long })
    const hidden = refused(['url', 'private_address', 'The URL points to …'])
    t.match(readFault(hidden, words).at['url'], /not reachable from the internet/)
    const asleep = new ApiFault(422, { code: 'API_NOT_RESPONDING', message: 'GET answered 503.' })
    t.strictSame(readFault(asleep, words), { at: { url: 'It does not answer.' }, line: undefined })
  },
)

t.test('what is about no field of the form stands in its own line', async (t) => {
  t.strictSame(readFault(refused(['methods', 'format', 'Expected a method.']), words), {
    at: {},
    line: 'Expected a method.',
  })
  const busy = new ApiFault(429, { code: 'RATE_LIMIT_EXCEEDED', message: 'Try again in 5 s.' })
  t.equal(readFault(busy, words).line, 'Try again in 5 s.')
  t.strictSame(readFault(undefined, words), { at: {}, line: undefined })
})
