import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { packed } from './sales/paymentRows.ts'

const hexOf = (bytes: number) => randomBytes(bytes).toString('hex')
const mark = fc.stringMatching(/^[\w-]{20,24}$/)
const digits = fc.stringMatching(/^(0[xX])?([0-9a-f]{63,65}|[0-9A-F]{64}|[0-9a-fA-F]{40}|[0-9a-f]{40})$/)
const texts = fc.oneof(
  fc.string({ unit: 'binary' }),
  digits,
  fc.tuple(digits, mark).map((parts) => parts.join(':')),
)

t.test('every text comes back as it was, whatever is packed', async (t) => {
  fc.assert(
    fc.property(texts, (text) => {
      t.ok(packed.hexText(packed.hex(text)) === text)
      t.ok(packed.callText(packed.call(text)) === text)
    }),
    { numRuns: 2_000 },
  )
})

t.test('what a sale has is packed to the half, and no two are packed alike', async (t) => {
  const length = (kept: string | Uint8Array) => (typeof kept === 'string' ? Number.NaN : kept.length)
  t.equal(length(packed.hex(`0x${hexOf(32)}`)), 32)
  t.equal(length(packed.hex(`0x${hexOf(20)}`)), 20)
  t.equal(length(packed.call(hexOf(32))), 32)
  t.equal(length(packed.call(`${hexOf(32)}:${randomBytes(32).toString('base64url').slice(0, 22)}`)), 49)
  for (const other of [
    hexOf(32),
    `0x${hexOf(32).toUpperCase()}A`,
    `0X${hexOf(32)}`,
    '0x',
    '',
    `0x${hexOf(31)}`,
  ])
    t.equal(packed.hex(other), other)
  const last = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_']
  const start = `${hexOf(32)}:${'a'.repeat(21)}`
  const kept = new Set(last.map((char) => Buffer.from(packed.call(start + char)).toString('hex')))
  t.equal(kept.size, last.length, 'each bit of a mark counts')
})
