import fc from 'fast-check'
import t from 'tap'
import { Pieces } from './pieces.ts'

const joined = (parts: readonly Buffer[]) => {
  const pieces = new Pieces()
  for (const part of parts) pieces.push(part)
  return { body: pieces.join(), bytes: pieces.bytes, count: pieces.count }
}

t.test('a body is what came, however it was cut', async (t) => {
  const sizes = fc.array(fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 900, max: 40_000 })))
  const whole = Buffer.from(Array.from({ length: 500_000 }, (_, i) => i % 251))
  fc.assert(
    fc.property(sizes, (sizes) => {
      let at = 0
      const parts = sizes.map((size) => whole.subarray(at, (at += size)))
      const { body, bytes } = joined(parts)
      return body.equals(whole.subarray(0, Math.min(at, whole.length))) && bytes === body.length
    }),
  )
  t.pass()
})

t.test('one piece is not copied', async (t) => {
  const only = Buffer.from('only')
  t.equal(joined([only]).body, only)
  t.equal(joined([]).body.length, 0)
})

t.test(
  'single bytes, and little pieces of something large, are held in few buffers of their own',
  async (t) => {
    t.ok(joined(Array.from({ length: 1_000_000 }, () => Buffer.from('x'))).count < 100)
    const parts = Array.from({ length: 50 }, () => Buffer.alloc(65_536).subarray(0, 2_000))
    const pieces = new Pieces()
    for (const part of parts) pieces.push(part)
    t.equal(pieces.count, 50)
    const before = parts.map((part) => part.toString())
    for (const part of parts.slice(1)) part.fill('changed')
    t.equal(pieces.join().toString(), before.join(''), 'copied out of what they were cut from')
  },
)
