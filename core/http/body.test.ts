import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { contentTypeOf, Pieces, readBody } from './body.ts'

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

const requestOf = (body: Readable, length: number) => ({
  header: (name: string) => (name === 'content-length' ? String(length) : undefined),
  body,
})

t.test('a body that somebody has read to its end is none to wait for', async (t) => {
  const body = Readable.from([Buffer.from('hello')], { objectMode: false })
  const outcome = await new Promise((resolve) => {
    body.resume().on('end', () => {
      const reading = readBody(requestOf(body, 5), 100)!
      const notified = reading.then(
        () => 'read',
        ({ code }) => code,
      )
      resolve(Promise.race([notified, sleep(1_000, 'waits for ever')]))
    })
  })
  t.equal(outcome, 'bad_request')
})

t.test('a body that breaks off is refused, and one that closes when it is whole is read', async (t) => {
  const broken = new Readable({ read() {} })
  const reading = readBody(requestOf(broken, 5), 100)!
  broken.push('he')
  broken.destroy()
  await t.rejects(reading, { code: 'bad_request' })
  const whole = Readable.from([Buffer.from('hello')], { objectMode: false })
  t.equal(String(await readBody(requestOf(whole, 5), 100)), 'hello')
})

const harmless =
  /^(?:application\/(?:json|octet-stream|gzip|zip|zstd)|(?:image|audio|video|font)\/[a-z0-9]+)$/

/** However a reader splits the value, it finds one type, and that type is not a document. */
function isHarmlessToEveryReader(value: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what readers split at, or should
  const fragments = value.toLowerCase().split(/[\x00-\x20,;"'=\x7f-\xff]+/)
  const types = fragments.filter((fragment) => /[/+<]/.test(fragment))
  return types.length === 1 && harmless.test(types[0]!) && value.toLowerCase().startsWith(types[0]!)
}

const piece = fc.constantFrom(
  ...[
    'application/json',
    'Application/JSON',
    'text/html',
    'text/json',
    'image/png',
    'image/svg+xml',
    'video/mp4',
  ],
  ...[
    'application/problem+json',
    'application/xhtml+xml',
    'application/octet-stream',
    'multipart/x-mixed-replace',
  ],
  ...[
    ';',
    ',',
    ' ',
    '\t',
    '\xa0',
    '\x0b',
    '\x0c',
    '\x00',
    '\r',
    '\n',
    '"',
    "'",
    '\\',
    '=',
    '+xml',
    '/',
    '\x85',
  ],
  ...[
    'charset',
    'charset=utf-8',
    'charset="utf-8"',
    'charset=utf-7',
    'charset=iso-2022-jp',
    'boundary=x',
    'ſ',
    'K',
  ],
)
const spelling = fc.oneof(
  fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join('')),
  fc.tuple(piece, fc.string({ maxLength: 3 }), piece).map((pieces) => pieces.join('')),
)

t.test('a spelling counts as inert only when no reader finds a document in it', async () => {
  fc.assert(
    fc.property(spelling, (value) => !contentTypeOf(value).isInert || isHarmlessToEveryReader(value)),
    { numRuns: 20_000 },
  )
})

t.test('only the one charset of JSON is inert, and binary types without parameters', async (t) => {
  for (const value of [
    ...['application/json', 'application/json; charset=utf-8', 'application/json;charset=UTF-8'],
    ...[
      'Application/Json ; charset="utf-8"',
      'image/png',
      'IMAGE/JPEG',
      'audio/mpeg',
      'video/mp4',
      'font/woff2',
    ],
    ...['application/octet-stream', 'application/zip'],
  ]) {
    t.ok(contentTypeOf(value).isInert, value)
  }
  for (const value of [
    ...[
      '',
      'json',
      'text/plain',
      'text/html',
      'text/json',
      'image/svg+xml',
      'application/xml',
      'application/pdf',
    ],
    ...[
      'application/json;',
      'application/json;, text/html',
      'application/json, text/html',
      'application/json\xa0',
    ],
    ...['application/json; charset=utf-7', 'application/json; charset=iso-2022-jp', 'application/json; a=b'],
    ...[
      'application/json;charset=utf-8;charset=utf-7',
      'application/json charset=utf-8',
      'application/ json',
    ],
    ...['application/json\x0b', 'application/jſon', 'image/png; charset=utf-7', 'image/*', 'image/x', '*/*'],
  ]) {
    t.notOk(contentTypeOf(value).isInert, JSON.stringify(value))
  }
})

t.test('the media type is there when the value is one', async (t) => {
  t.equal(contentTypeOf('Application/JSON; charset=utf-8').mediaType, 'application/json')
  t.equal(contentTypeOf('application/json;').mediaType, 'application/json')
  t.equal(contentTypeOf('text/plain ;x=y').mediaType, 'text/plain')
  for (const value of [
    '',
    'json',
    'application/json;, text/html',
    'a/b, c/d',
    'application/json\xa0',
    'a/b c',
  ]) {
    t.equal(contentTypeOf(value).mediaType, '', JSON.stringify(value))
  }
})

t.test('more spellings than are remembered change no judgement', async (t) => {
  for (let i = 0; i < 2_500; i++) contentTypeOf(`text/x-${i}`)
  t.ok(contentTypeOf('application/json').isInert)
  t.notOk(contentTypeOf('text/x-1').isInert)
  t.notOk(contentTypeOf(`application/json;${' '.repeat(1_000)}, text/html`).isInert)
})
