import { existsSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import t from 'tap'
import { parseStrictJson } from './strictJson.ts'

const corpus = new URL('../../../shared/corpora/jsontestsuite.json', import.meta.url)

t.test(
  'JSONTestSuite: every valid text is read and every invalid one refused',
  { skip: !existsSync(corpus) && 'the corpus is not here' },
  async (t) => {
    const cases = JSON.parse(readFileSync(corpus, 'utf8')) as Record<string, string | Generated>
    t.ok(Object.keys(cases).length > 300, 'the corpus is whole')
    for (const [name, source] of Object.entries(cases)) {
      const outcome = read(bytesOf(source))
      if (name.startsWith('n_')) t.equal(outcome, undefined, name)
      // RFC 8259 only says that keys SHOULD be unique; here they must be.
      else if (name.startsWith('y_')) t.equal(outcome === undefined, name.includes('duplicated_key'), name)
      else if (/^i_(string|object_key|structure)/.test(name)) t.equal(outcome, undefined, name)
    }
  },
)

interface Generated {
  gen: 'open-arrays' | 'open-array-object'
  bytes: number
}

function bytesOf(source: string | Generated): Uint8Array {
  if (typeof source === 'string') return Buffer.from(source, 'base64')
  const unit = source.gen === 'open-arrays' ? '[' : '[{"":'
  return Buffer.from(unit.repeat(Math.ceil(source.bytes / unit.length)).slice(0, source.bytes))
}

/** The value in a box, or undefined when the bytes are not UTF-8 or not strict JSON. */
function read(bytes: Uint8Array): { value: unknown } | undefined {
  try {
    const parsed = parseStrictJson(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
    return parsed.ok ? { value: parsed.value } : undefined
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}

t.test('any value that JSON can carry is read as it was written, however it is spaced', async (t) => {
  const value = fc.jsonValue({ maxDepth: 8, stringUnit: 'grapheme' })
  fc.assert(
    fc.property(value, fc.constantFrom(0, 1, '\t', 4), (value, space) => {
      const text = JSON.stringify(value, null, space)
      fc.pre(!text.includes('__proto__') && JSON.parse(text) !== undefined)
      const parsed = parseStrictJson(text)
      return parsed.ok && JSON.stringify(parsed.value) === JSON.stringify(value)
    }),
    { numRuns: 1000 },
  )
  t.pass('1000 values')
})

t.test('a key that is written twice is refused, however it is escaped and wherever it stands', async (t) => {
  for (const text of [
    '{"a":1,"a":1}',
    '{"a":1,"\\u0061":2}',
    '{"x":[{"deep":{"k":"}","b\\"":0,"b\\u0022":1}}]}',
    '{"":1,"":2}',
    '{"a" :1 ,\n"b":{"a":2}, "a"\t: 3}',
  ]) {
    t.equal(parseStrictJson(text).ok, false, text)
  }
  t.match(parseStrictJson('{"amount":"1","amount":"2"}'), { message: /"amount" twice/ })
  for (const text of [
    '[{"a":1},{"a":1}]',
    '{"a":{"a":{"a":"a"}}}',
    '{"a":"a\\":","b":"a"}',
    '{"a\\\\":1,"a":2}',
  ]) {
    t.equal(parseStrictJson(text).ok, true, text)
  }
})

t.test('of all texts, exactly those are read in which no object has a key twice', async (t) => {
  type Tree = string | readonly Tree[] | { readonly members: readonly (readonly [string, Tree])[] }
  const word = fc.constantFrom('a', 'b', ':', '{":', '":', '1', 'a":1,"a', '\\', '')
  const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      word,
      fc.array(tie('tree'), { maxLength: 3 }),
      fc.record({ members: fc.array(fc.tuple(word, tie('tree')), { maxLength: 4 }) }),
    ),
  }))
  const write = (tree: Tree): string => {
    if (typeof tree === 'string') return JSON.stringify(tree)
    if (!('members' in tree)) return `[${tree.map(write).join(' ,')}]`
    return `{${tree.members.map(([key, value]) => `${JSON.stringify(key)}: ${write(value)}`).join(',')}}`
  }
  const isUnique = (tree: Tree): boolean => {
    if (typeof tree === 'string') return true
    if (!('members' in tree)) return tree.every(isUnique)
    const keys = tree.members.map(([key]) => key)
    return new Set(keys).size === keys.length && tree.members.every(([, value]) => isUnique(value))
  }
  const seen = { unique: 0, twice: 0 }
  fc.assert(
    fc.property(tree, (tree) => {
      seen[isUnique(tree) ? 'unique' : 'twice']++
      return parseStrictJson(write(tree)).ok === isUnique(tree)
    }),
    { numRuns: 3000 },
  )
  t.ok(seen.unique > 300 && seen.twice > 300, `both kinds came: ${JSON.stringify(seen)}`)
})

t.test('no text reaches a prototype', async (t) => {
  t.equal(parseStrictJson('{"__proto__":{"isPaid":true}}').ok, false)
  t.equal(parseStrictJson('{"x":[{"\\u005f_proto__":1}]}').ok, false)
  t.equal(parseStrictJson('{"x":"__proto__"}').ok, true, 'as a value it is only text')
  const parsed = parseStrictJson('{"constructor":{"prototype":{"isPaid":true}}}')
  t.ok(parsed.ok && Object.hasOwn(parsed.value as object, 'constructor'))
  t.equal(({} as Record<string, unknown>)['isPaid'], undefined)
})

t.test('a key is found twice even where somebody has added to the prototype of all objects', async (t) => {
  const prototype = Object.prototype as Record<string, unknown>
  t.teardown(() => delete prototype['added'])
  prototype['added'] = 1
  t.equal(parseStrictJson('{"a":1,"a":2}').ok, false)
  t.equal(parseStrictJson('{"a":1,"b":2}').ok, true)
})

t.test('an unpaired surrogate is refused, raw or escaped, and a pair is kept', async (t) => {
  for (const text of ['"\ud800"', '"\\ud800"', '"\\uDC00\\uD800"', '{"\\udead":1}', '"\\\\\\ud800"']) {
    t.equal(parseStrictJson(text).ok, false, JSON.stringify(text))
  }
  t.strictSame(parseStrictJson('"\\ud83d\\ude39"'), { ok: true, value: '😹' })
  t.strictSame(
    parseStrictJson('"\\\\ud800"'),
    { ok: true, value: '\\ud800' },
    'an escaped backslash is no escape',
  )
})

t.test('nesting is bounded exactly, and no depth exhausts the stack', async (t) => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  t.equal(parseStrictJson(nested(64)).ok, true)
  t.equal(parseStrictJson(nested(65)).ok, false)
  t.equal(parseStrictJson('[[]]', { maxDepth: 1 }).ok, false)
  t.equal(parseStrictJson('["[[[[", "{\\"{"]', { maxDepth: 1 }).ok, true, 'brackets in strings are text')
  t.match(parseStrictJson(nested(1_000_000)), { message: /levels of nesting/ })
  t.equal(parseStrictJson('{"a":'.repeat(1_000_000)).ok, false)
})

t.test('a number that a double can not hold is refused instead of becoming Infinity', async (t) => {
  for (const text of ['1e400', '[-1E+999]', `[${'9'.repeat(400)}]`])
    t.equal(parseStrictJson(text).ok, false, text)
  t.strictSame(parseStrictJson('[1e308,-0.5,0,10E-2]'), { ok: true, value: [1e308, -0.5, 0, 0.1] })
})

t.test('a refusal never repeats a value', async (t) => {
  const secret = 'hunter2hunter2'
  for (const text of [
    `{"key":"${secret}`,
    `["${secret}" "${secret}"]`,
    `{"a":"${secret}","a":"${secret}"}`,
  ]) {
    const parsed = parseStrictJson(text)
    t.ok(!parsed.ok && !parsed.message.includes(secret), text)
  }
})
