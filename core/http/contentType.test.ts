import fc from 'fast-check'
import t from 'tap'
import { contentTypeOf } from './contentType.ts'

const harmless =
  /^(?:application\/(?:json|octet-stream|gzip|zip|zstd)|(?:image|audio|video|font)\/[a-z0-9]+)$/

/** However a reader splits the value, it finds one type, and that one is no document. */
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
