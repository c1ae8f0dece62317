import { existsSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import t from 'tap'
import { safeJson, safeLine, safeText } from './terminalText.ts'

const harmful = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u

t.test('no text of a stranger can control a terminal', async () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
      const kept = safeText(text).replace(/[\n\t]/g, '')
      return !harmful.test(safeLine(text)) && !harmful.test(kept)
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
  ['half of a pair', 'a\ud800b', 'a\\u{d800}b'],
] as const) {
  t.test(`${name} is shown, not obeyed`, async (t) => {
    t.equal(safeLine(text), shown)
    t.equal(safeText(text), shown)
  })
}

t.test('plain text stays as it is, in any script', async (t) => {
  const text = 'Größe 12 € – שלום, 你好, नमस्ते 🙂'
  t.equal(safeLine(text), text)
  t.equal(safeText(`${text}\r\n\tmore\n`), `${text}\n\tmore\n`)
  t.equal(safeLine('a\nb'), 'a\\u{a}b', 'one line stays one line')
})

t.test('safe JSON is the same value', async () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (key, value) => {
      const text = safeJson({ [key]: value })
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
    strings.filter((text) => harmful.test(safeLine(text))),
    [],
  )
})
