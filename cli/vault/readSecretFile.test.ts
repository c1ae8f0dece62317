import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { readPrivateFile } from '../pay/readPrivateFile.ts'
import { readSecretFile } from './secretFiles.ts'

const folder = mkdtempSync(join(tmpdir(), 'secret-'))
const file = join(folder, 'secret')
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

const read = (bytes: Uint8Array | string): string => {
  writeFileSync(file, bytes, { mode: 0o600 })
  return readSecretFile(file, () => undefined)
}

t.test(
  'two files that differ never give the same secret, except for a mark at the start and a line end',
  async (t) => {
    const secretOf = (bytes: Uint8Array): string | null => {
      try {
        return read(bytes)
      } catch {
        return null
      }
    }
    const bytes = fc.uint8Array({ minLength: 1, maxLength: 12 })
    fc.assert(
      fc.property(bytes, bytes, (one, other) => {
        const [first, second] = [secretOf(one), secretOf(other)]
        if (first === null || first !== second) return
        t.same(core(one), core(other))
      }),
      { numRuns: 300 },
    )
    for (const encoded of [
      // "пароль" in Windows-1251 and in KOI8-R, "Zürich" in Latin-1, a key file.
      'efe0f0eeebfc',
      'd0c1d2cfccd8',
      '5afc72696368',
      'ff00c3',
      // "password" in UTF-16, with and without its mark.
      'fffe700061007300730077006f0072006400',
      '700061007300730077006f0072006400',
      // Invalid forms of UTF-8: overlong, a surrogate, beyond the last code point, cut off.
      'c1a1',
      'eda080',
      'f4908080',
      'c3',
    ])
      t.throws(() => read(Buffer.from(encoded, 'hex')), { message: /not UTF-8/ }, encoded)
  },
)

/** Without what editors add around a text. */
function core(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString('hex')
    .replace(/^efbbbf/, '')
    .replace(/(?:0d)?0a$/, '')
}

t.test('a text in UTF-8 is read whole, without the mark that some editors write first', async (t) => {
  t.equal(read('пароль 🔑\r\n'), 'пароль 🔑')
  t.equal(read('\uFEFFcorrect horse\n'), 'correct horse')
  t.equal(read(' two\nlines '), ' two\nlines ')
  t.throws(() => read('\uFEFF\n'), { message: /is empty/ })
})

t.test('a key file of `tollgate pay` that is not UTF-8 is refused in the same words', async (t) => {
  writeFileSync(file, Buffer.from('fffe6100', 'hex'), { mode: 0o600 })
  await t.rejects(readPrivateFile(file, 'key file'), { message: /key file is not UTF-8/ })
})
