import { existsSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import t from 'tap'
import { visibleBlock, visibleColumns, visibleJson, visibleText } from './visibleText.ts'

const harmful = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u00a0]/u

t.test('no text of a stranger can control a terminal', async () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
      const kept = visibleBlock(text).replace(/[\n\t]/g, '')
      return !harmful.test(visibleText(text)) && !harmful.test(kept)
    }),
    { numRuns: 3_000 },
  )
})

for (const [name, text, shown] of [
  ['an escape sequence', 'a\u001b[2Jb', 'a\\u{1b}[2Jb'],
  ['a C1 sequence', 'a\u009b2Jb', 'a\\u{9b}2Jb'],
  ['a title change', '\u001b]0;root\u0007', '\\u{1b}]0;root\\u{7}'],
  ['a right-to-left override', 'gnp\u202eexe', 'gnp\\u{202e}exe'],
  ['an isolate', '\u2066x\u2069', '\\u{2066}x\\u{2069}'],
  ['a zero-width space', 'pay\u200bpal', 'pay\\u{200b}pal'],
  ['a carriage return that hides a line', 'evil\rgood', 'evil\\u{d}good'],
  ['a backspace', 'a\bb', 'a\\u{8}b'],
  ['a tag character', 'a\u{e0041}b', 'a\\u{e0041}b'],
  ['a Hangul filler', 'a\u3164b', 'a\\u{3164}b'],
  ['a letter that is struck out', 'a\u0336', 'a\\u{336}'],
  ['half of a pair', 'a\ud800b', 'a\\u{d800}b'],
] as const) {
  t.test(`${name} is shown, not obeyed`, async (t) => {
    t.equal(visibleText(text), shown)
    t.equal(visibleBlock(text), shown)
  })
}

t.test('plain text stays as it is, in any script', async (t) => {
  const text = 'Größe 12 € – שלום, 你好, नमस्ते 🙂'
  t.equal(visibleText(text), text)
  t.equal(visibleBlock(`${text}\r\n\tmore\n`), `${text}\n\tmore\n`)
  t.equal(visibleText('a\nb'), 'a\\u{a}b', 'one line stays one line')
})

t.test('a tower of marks stays in its own line', async (t) => {
  t.equal(visibleText(`a${'\u0301'.repeat(5)}`), `a${'\u0301'.repeat(3)}\\u{301}\\u{301}`)
  t.equal(visibleBlock('a\n\u0301b'), 'a\n\\u{301}b')
})

t.test('in a line under which something is marked, every place stays', async (t) => {
  t.equal(visibleColumns('a\u001b\tb\u{e0041}c', '·'), 'a·\tb··c')
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const line = visibleColumns(text, '·')
      return line.length === text.length && !harmful.test(line.replaceAll('\t', ''))
    }),
  )
})

t.test('JSON has a word for everything', async (t) => {
  t.equal(visibleJson({ amountAtomic: 10n }), '{"amountAtomic":"10"}')
  t.equal(visibleJson(undefined), 'null')
})

t.test('visible JSON is the same value', async () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (key, value) => {
      const text = visibleJson({ [key]: value })
      return !harmful.test(text) && JSON.stringify(JSON.parse(text)) === JSON.stringify({ [key]: value })
    }),
    { numRuns: 2_000 },
  )
})

const naughty = new URL('../../../shared/corpora/blns.json', import.meta.url)
t.test('naughty strings', { skip: !existsSync(naughty) && 'the corpus is not here' }, async (t) => {
  const strings = JSON.parse(readFileSync(naughty, 'utf8')) as string[]
  t.ok(strings.length > 400)
  t.strictSame(
    strings.filter((text) => harmful.test(visibleText(text))),
    [],
  )
})
