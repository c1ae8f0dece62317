import fc from 'fast-check'
import t from 'tap'
import { decodeHeader, decodeStrictBase64, encodeHeader } from './header.ts'

const base64 = (text: string | Uint8Array) => Buffer.from(text as string).toString('base64')

t.test('an object comes back from its header', async (t) => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (object) => {
      fc.pre(!JSON.stringify(object).includes('__proto__'))
      const decoded = decodeHeader(encodeHeader(object), 1e6)
      return decoded.ok && JSON.stringify(decoded.value) === JSON.stringify(object)
    }),
  )
  t.strictSame(decodeHeader(encodeHeader({ description: 'Prévisions ☔' })), {
    ok: true,
    value: { description: 'Prévisions ☔' },
  })
})

for (const [name, header] of Object.entries({
  'an empty value': '',
  'JSON that is not encoded': '{"x402Version":2}',
  'base64 without its padding': base64('{"x402Version":2}').replace(/=+$/, ''),
  'two values joined': `${base64('{"a":1}')}, ${base64('{"a":1}')}`,
  'bytes that are not UTF-8': base64(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])),
  'a byte order mark': base64(Buffer.from('\ufeff{}')),
  'a duplicate key': base64('{"amount":"1","amount":"2"}'),
  'an array': base64('[{}]'),
  null: base64('null'),
  'a string': base64('"{}"'),
})) {
  t.test(`${name} is refused with a reason`, async (t) => {
    const decoded = decodeHeader(header)
    t.ok(!decoded.ok && decoded.message.startsWith('Expected'), name)
  })
}

t.test('a header is not looked at beyond its limit', async (t) => {
  const header = encodeHeader({ a: 'x'.repeat(20_000) })
  t.match(decodeHeader(header), { ok: false, message: /at most 16384/ })
  t.equal(decodeHeader(header, 30_000).ok, true)
})

t.test('no header throws', async (t) => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string({ unit: 'binary' }), fc.base64String(), fc.json().map(base64)),
      (header) => {
        const decoded = decodeHeader(header)
        return typeof decoded.ok === 'boolean'
      },
    ),
    { numRuns: 1000 },
  )
  t.pass('1000 headers')
})

t.test('what is encoded comes back, byte for byte', async () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      const decoded = decodeStrictBase64(Buffer.from(bytes).toString('base64'), 300)
      return decoded !== undefined && Buffer.compare(decoded, bytes) === 0
    }),
  )
})

t.test('at most one spelling of some bytes is accepted', async () => {
  const spelling = fc.string({ unit: fc.constantFrom(...'ABab01+/-_= \n\t'), maxLength: 12 })
  fc.assert(
    fc.property(spelling, (text) => {
      const decoded = decodeStrictBase64(text, 100)
      return decoded === undefined || Buffer.from(decoded).toString('base64') === text
    }),
    { numRuns: 2000 },
  )
})

for (const [name, text] of Object.entries({
  'a missing padding': 'AQI',
  'padding in the middle': 'AQ==AQI=',
  'too much padding': 'AQI==',
  'padding alone': '====',
  'trailing bits that are not zero': 'AQJ=',
  'trailing bits that are not zero, two pads': 'AR==',
  'the URL alphabet': 'P-_-',
  'a line break': 'AQID\nAQID',
  'a space around it': ' AQI=',
  'a character outside the alphabet': 'AQI*',
  'a character outside Latin-1': 'AQIā',
})) {
  t.test(`${name} is refused`, async (t) => {
    t.equal(decodeStrictBase64(text, 100), undefined)
  })
}

t.test('the byte limit is exact, and the empty text is zero bytes', async (t) => {
  const five = Buffer.alloc(5, 7).toString('base64')
  t.equal(decodeStrictBase64(five, 5)?.length, 5)
  t.equal(decodeStrictBase64(five, 4), undefined)
  t.equal(decodeStrictBase64('', 0)?.length, 0)
  t.equal(decodeStrictBase64('AAAA'.repeat(1e6), 10), undefined)
})
