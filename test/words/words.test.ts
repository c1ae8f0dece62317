import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { findWords, rules } from './words.ts'

const root = resolve(import.meta.dirname, '../..')
const fixture = join(import.meta.dirname, 'fixture')
/** These contain the words on purpose. */
const fixtures = /^(?:test\/words\/|test\/architecture\/fixture\/)/

t.test('comments, messages and documents are free of private words', async (t) => {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
  })
  const files = listed
    .toString()
    .split('\n')
    .filter(
      (file) =>
        /\.(?:ts|md|css|html|ya?ml)$/.test(file) && !fixtures.test(file) && existsSync(join(root, file)),
    )
  t.ok(files.length > 1_000, `${files.length} files were read`)
  const found = findWords(root, files)
  t.strictSame(
    found.map(({ file, line, found, instead }) => `${file}:${line} "${found}": write ${instead}`),
    [],
  )
})

t.test('each rule finds its word in a comment, a message and a document', async (t) => {
  const found = findWords(fixture, ['comment.ts', 'message.ts', 'document.md'])
  for (const file of ['comment.ts', 'message.ts', 'document.md'])
    t.equal(
      new Set(found.filter((one) => one.file === file).map(({ instead }) => instead)).size,
      new Set(rules.map(({ instead }) => instead)).size,
      file,
    )
  t.strictSame(findWords(fixture, ['code.md']), [], 'code in a document is none of its sentences')
})

t.test('markup, a line break or another kind of file does not hide a word', async (t) => {
  const of = (file: string) => findWords(fixture, [file]).map(({ found }) => found.toLowerCase())
  t.equal(of('message.ts').filter((word) => word === 'nobody').length, 2)
  for (const word of ['somebody', 'anybody']) t.ok(of('message.ts').includes(word), word)
  t.equal(of('comment.ts').filter((word) => word === 'can not').length, 2)
  t.strictSame(of('style.css'), ['nobody'])
  t.strictSame(of('settings.yaml'), ['whoever', 'gateway does not know'])
})
