import fc from 'fast-check'
import t from 'tap'
import { EventScanner } from './eventScanner.ts'
import { JsonScanner } from './jsonScanner.ts'

/** What a scanner has reported, as texts such as `a/0=1`. */
function listener() {
  const read: string[] = []
  let documents = 0
  return {
    read,
    documents: () => documents,
    scalar: (path: readonly (string | null)[], text: string, isNumber: boolean) =>
      void read.push(`${JSON.stringify(path)}=${isNumber ? Number(text) : JSON.stringify(text)}`),
    document: () => void documents++,
    dropped() {},
  }
}

/** The numbers and strings of a value, in the order of its JSON. */
function scalarsOf(value: unknown, path: readonly string[] = []): string[] {
  if (typeof value === 'number') return [`${JSON.stringify(path)}=${value === 0 ? 0 : value}`]
  if (typeof value === 'string') return [`${JSON.stringify(path)}=${JSON.stringify(value)}`]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, one]) => scalarsOf(one, [...path, key]))
}

const cuts = fc.array(fc.nat(400), { maxLength: 8 })

function pushed(scanner: { push(chunk: Uint8Array): void }, bytes: Buffer, at: readonly number[]): void {
  let from = 0
  for (const cut of [...at].sort((a, b) => a - b)) {
    const end = Math.min(Math.max(cut, from), bytes.length)
    scanner.push(bytes.subarray(from, end))
    from = end
  }
  scanner.push(bytes.subarray(from))
}

const json = fc.json({ maxDepth: 5, stringUnit: 'binary' }).filter((text) => /^[[{]/.test(text))

t.test('a document is read as JSON.parse reads it, wherever its chunks end', async (t) => {
  fc.assert(
    fc.property(json, fc.nat(4), cuts, (text, indent, at) => {
      const value = JSON.parse(text)
      const seen = listener()
      pushed(new JsonScanner(seen), Buffer.from(JSON.stringify(value, null, indent)), at)
      t.strictSame(seen.read, scalarsOf(value), text)
      t.equal(seen.documents(), 1)
    }),
    { numRuns: 300 },
  )
})

t.test('documents may follow one another', async (t) => {
  const seen = listener()
  new JsonScanner(seen).push(Buffer.from('{"a":1}\n{"a":2} [3]'))
  t.strictSame(seen.read, ['["a"]=1', '["a"]=2', '["0"]=3'])
  t.equal(seen.documents(), 3)
})

t.test('a text that is not JSON is no document', async (t) => {
  for (const text of [
    '{"a":1',
    '{"a" 1}',
    '{a:1}',
    '{"a":1,}',
    '[1,]',
    '[1}',
    '{"a":01}',
    '{"a":tru}',
    '{"a":1]',
    ']',
    '{"a"}',
    '{"a":"\\x"}',
    '[1 2]',
    '{"a":1 "b":2}',
    `${'['.repeat(65)}1${']'.repeat(65)}`,
    '<html>{"a":1}',
  ]) {
    const seen = listener()
    new JsonScanner(seen).push(Buffer.from(text))
    t.equal(seen.documents(), 0, text)
  }
})

t.test('long keys and strings are skipped, and the rest is read', async (t) => {
  const long = 'x'.repeat(100_000)
  const seen = listener()
  new JsonScanner(seen).push(Buffer.from(JSON.stringify({ [long]: 1, a: long, b: { c: 2 } })))
  t.strictSame(seen.read, ['[null]=1', '["b","c"]=2'])
  t.equal(seen.documents(), 1)
})

t.test('events are read wherever their chunks end, with every end of line', async (t) => {
  const events = [
    ': comment\nevent: x\ndata: {"a":"ü😀","n":1}',
    'data: [DONE]',
    'data: {"n":\ndata:2}',
    'id: 7\ndata: {"unfinished":',
    'dat: {"n":3}',
    'data:{"n":4}',
  ]
  for (const end of ['\n', '\r\n', '\r']) {
    const bytes = Buffer.from(events.map((event) => `${event}\n\n`.replaceAll('\n', end)).join(''))
    fc.assert(
      fc.property(cuts, (at) => {
        const seen = listener()
        pushed(new EventScanner(new JsonScanner(seen)), bytes, at)
        t.strictSame(seen.read, ['["a"]="ü😀"', '["n"]=1', '["n"]=2', '["n"]=4'])
        t.equal(seen.documents(), 3)
      }),
      { numRuns: 60 },
    )
  }
})
