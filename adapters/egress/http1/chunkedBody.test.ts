import fc from 'fast-check'
import t from 'tap'
import { ChunkedBody } from './message.ts'

/** Reads bytes that come in pieces of these sizes, then the rest. */
function readAll(wire: Buffer, cuts: readonly number[]): { body: string; isDone: boolean; left: number } {
  const chunks = new ChunkedBody()
  const pieces: Buffer[] = []
  let left = 0
  for (let at = 0, i = 0; at < wire.length && !chunks.isDone; i++) {
    const part = wire.subarray(at, at + (cuts[i] ?? wire.length))
    const used = chunks.read(part, (piece) => pieces.push(piece))
    at += part.length
    if (chunks.isDone) left = wire.length - at + part.length - used
  }
  return { body: Buffer.concat(pieces).toString('latin1'), isDone: chunks.isDone, left }
}

const wireOf = (parts: readonly string[], trailer = '') =>
  Buffer.from(
    `${parts.map((p) => `${p.length.toString(16)};ext=1\r\n${p}\r\n`).join('')}0\r\n${trailer}\r\n`,
    'latin1',
  )

t.test('a body is the same however it is cut on its way', async (t) => {
  const part = fc.string({ minLength: 1, maxLength: 40, unit: fc.constantFrom('a', '\r', '\n', '0', '\xff') })
  fc.assert(
    fc.property(fc.array(part), fc.array(fc.integer({ min: 1, max: 9 })), (parts, cuts) => {
      const { body, isDone, left } = readAll(wireOf(parts, 'X-Trailer: dropped\r\n'), cuts)
      return isDone && left === 0 && body === parts.join('')
    }),
  )
  t.pass()
})

t.test('a trailer that would say anew where the message ends is refused', async (t) => {
  for (const trailer of ['Content-Length: 3', 'content-length:0', 'Transfer-Encoding: chunked'])
    t.throws(
      () => readAll(wireOf(['ok'], `X-T: 1\r\n${trailer}\r\n`), []),
      { code: 'EGRESS_BAD_ANSWER' },
      trailer,
    )
})

t.test('what stands behind the last chunk is not its own', async (t) => {
  const wire = Buffer.concat([wireOf(['ok']), Buffer.from('HTTP/1.1 200 OK')])
  t.match(readAll(wire, []), { body: 'ok', isDone: true, left: 15 })
})

t.test('chunks that come together are one piece, at its place where it can be', async (t) => {
  const pieces: Buffer[] = []
  const take = (wire: Buffer) => new ChunkedBody().read(wire, (piece) => pieces.push(piece))
  take(wireOf(Array(10_000).fill('x')))
  t.strictSame(pieces.map(String), ['x'.repeat(10_000)])
  const whole = wireOf(['whole'])
  take(whole)
  t.equal(pieces[1]!.buffer, whole.buffer)
  t.equal(pieces[1]!.byteOffset, whole.byteOffset + '5;ext=1\r\n'.length, 'not moved')
  take(Buffer.from('0\r\n\r\n'))
  t.equal(pieces.length, 2, 'nothing is no piece')
})

t.test('sizes and line ends have one spelling', async (t) => {
  const bad = [
    'zz\r\n',
    '-1\r\n',
    '0x2\r\nab\r\n',
    '\r\n',
    '2\nab\n',
    '2\r\nabc\r\n',
    '123456789\r\n',
    '2 x\r\n',
    '2 \r\nab\r\n',
    '2;\xff\r\nab\r\n',
    '0\r\n\rX-T: 1\r\n\r\n',
    '0\r\nno colon\r\n\r\n',
  ]
  for (const wire of bad) {
    t.throws(
      () => readAll(Buffer.from(wire, 'latin1'), []),
      { code: 'EGRESS_BAD_ANSWER' },
      JSON.stringify(wire),
    )
  }
  t.throws(() => readAll(Buffer.from(`2;${'e'.repeat(300)}`), []), { code: 'EGRESS_BAD_ANSWER' })
  const trailers = `0\r\n${`X: ${'t'.repeat(100)}\r\n`.repeat(200)}\r\n`
  t.throws(() => readAll(Buffer.from(trailers), []), { code: 'EGRESS_BAD_ANSWER' })
})
