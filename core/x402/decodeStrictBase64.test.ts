import fc from 'fast-check'
import t from 'tap'
import { decodeStrictBase64 } from './header.ts'

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
