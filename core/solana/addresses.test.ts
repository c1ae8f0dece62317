import { base58 } from '@scure/base'
import fc from 'fast-check'
import t from 'tap'
import { readAddress } from './addresses.ts'

const digits = [...'123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz']

t.test(
  'an address has one spelling: whatever text is read, its bytes are written as that very text',
  async (t) => {
    const text = fc.string({ unit: fc.constantFrom(...digits), minLength: 30, maxLength: 46 })
    const padded = fc
      .tuple(fc.nat(34), text)
      .map(([ones, rest]) => '1'.repeat(ones) + rest.slice(0, 44 - ones))
    let read = 0
    const holds = (text: string) => {
      const bytes = readAddress(text)
      if (bytes !== undefined) read++
      return bytes === undefined || (bytes.length === 32 && base58.encode(bytes) === text)
    }
    fc.assert(fc.property(fc.oneof(text, padded), holds), { numRuns: 3_000 })
    t.ok(read > 50, `${read} were addresses`)
  },
)

t.test('every 32 bytes are read back', async () => {
  const key = fc.uint8Array({ minLength: 32, maxLength: 32 })
  fc.assert(fc.property(key, (bytes) => Buffer.compare(readAddress(base58.encode(bytes))!, bytes) === 0))
})

t.test('anything else is none', async (t) => {
  for (const text of [
    '',
    '0'.repeat(32),
    '1'.repeat(31),
    '1'.repeat(33),
    'z'.repeat(44),
    ' '.repeat(40),
    '1'.repeat(1e6),
  ])
    t.equal(readAddress(text), undefined, text.slice(0, 50))
})
