import fc from 'fast-check'
import t from 'tap'
import { parseConfig } from '../../core/config/loadConfig.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { createOutput } from './createOutput.ts'
import { UsageError } from './exitCodes.ts'
import { type Column, displayWidth, truncate, wrap } from './table.ts'

interface Row {
  readonly name: string
  readonly price: bigint
}

const columns: readonly Column<Row>[] = [
  { title: 'Name', value: (row) => row.name },
  { title: 'Price', value: (row) => row.price, align: 'right' },
]
const rows: readonly Row[] = [
  { name: 'weather', price: 100_000n },
  { name: '天気 🌈', price: 5n },
]

function fake(isTTY: boolean, width = 80) {
  const chunks: string[] = []
  return { isTTY, columns: width, write: (text: string) => chunks.push(text), text: () => chunks.join('') }
}

function outputOf(options: { tty?: boolean; width?: number; json?: boolean; env?: Record<string, string> }) {
  const stdout = fake(options.tty ?? true, options.width)
  const stderr = fake(options.tty ?? true, options.width)
  const output = createOutput({ stdout, stderr, json: options.json, env: { NO_COLOR: '1', ...options.env } })
  return { output, stdout, stderr }
}

/** Characters that act on a terminal instead of being visible. */
const dangerous = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

t.test('a terminal gets a table whose columns line up, wide characters too', (t) => {
  const { output, stdout } = outputOf({})
  output.rows(rows, columns)
  t.equal(stdout.text(), 'Name      Price\nweather  100000\n天気 🌈       5\n')
  t.end()
})

t.test('a terminal that does not know how wide it is gets a table as one of 80 columns', (t) => {
  const [unknown, usual] = [outputOf({ width: 0 }), outputOf({})]
  for (const { output } of [unknown, usual]) output.rows([{ name: 'w'.repeat(40), price: 1n }], columns)
  t.equal(unknown.stdout.text(), usual.stdout.text())
  t.end()
})

t.test('a pipe, or --json, gets one object a line, with every field', (t) => {
  for (const options of [{ tty: false }, { json: true }]) {
    const { output, stdout, stderr } = outputOf(options)
    output.rows(rows, columns)
    output.say('Not for programs.')
    output.progress('Working').done('Done')
    const lines = stdout.text().trimEnd().split('\n')
    t.strictSame(
      lines.map((line) => JSON.parse(line)),
      rows.map(({ name, price }) => ({ name, price: String(price) })),
    )
    t.equal(options.tty === false ? stderr.text() : '', '')
  }
  t.end()
})

t.test('an empty list is a sentence for a person, and nothing for a program', (t) => {
  const person = outputOf({})
  person.output.rows([], columns, 'No links yet.')
  t.equal(person.stdout.text(), 'No links yet.\n')
  const program = outputOf({ json: true })
  program.output.rows([], columns, 'No links yet.')
  t.equal(program.stdout.text(), '')
  t.end()
})

t.test('no line is wider than the terminal, however narrow it is', (t) => {
  const cell = fc.string({ unit: 'grapheme', maxLength: 60 })
  fc.assert(
    fc.property(
      fc.array(cell, { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 16, max: 100 }),
      (names, width) => {
        const { output, stdout } = outputOf({ width })
        output.rows(
          names.map((name) => ({ name, price: 1n })),
          columns,
        )
        return stdout
          .text()
          .split('\n')
          .every((line) => displayWidth(line) <= width)
      },
    ),
  )
  t.end()
})

t.test('a table that can not fit becomes a block of lines a row', (t) => {
  const many = Array.from({ length: 6 }, (_, i) => ({ title: `Column${i}`, value: () => 'abcdefghijkl' }))
  const { output, stdout } = outputOf({ width: 30 })
  output.rows([{}, {}], many)
  t.match(stdout.text(), /^Column0: abcdefghijkl\nColumn1/)
  t.match(stdout.text(), /\n\nColumn0/)
  t.end()
})

t.test('text from outside can not act on the terminal, wherever it is printed', (t) => {
  const hostile = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('\u001b[2J', 'a\u202eb', '\u009b31m', 'x\r\ny', '\u200b', '\ud800', 'a\u2028b'),
  )
  fc.assert(
    fc.property(hostile, fc.boolean(), (text, json) => {
      const { output, stdout, stderr } = outputOf({ json })
      output.rows([{ name: text, price: 1n }], columns)
      output.result({ text }, text.replaceAll('\t', ' '))
      output.warn(text.replaceAll('\t', ' '))
      output.fail(new Error(text.replaceAll('\t', ' ')))
      return !dangerous.test(stdout.text()) && !dangerous.test(stderr.text())
    }),
  )
  t.end()
})

t.test('JSON stays the same value, whatever had to be escaped', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const { output, stdout } = outputOf({ json: true })
      output.result({ text }, '')
      return JSON.parse(stdout.text()).text === text
    }),
  )
  t.end()
})

t.test('colours are for terminals, and NO_COLOR or a dumb one turns them off', (t) => {
  const escapes = (options: Parameters<typeof outputOf>[0]) => {
    const { output, stdout, stderr } = outputOf(options)
    output.rows(rows, columns)
    output.warn('careful')
    return (stdout.text() + stderr.text()).includes('\u001b[')
  }
  t.equal(escapes({ env: { NO_COLOR: '' } }), true)
  t.equal(escapes({ env: { NO_COLOR: '1' } }), false)
  t.equal(escapes({ env: { NO_COLOR: '', TERM: 'dumb' } }), false)
  t.equal(escapes({ env: { NO_COLOR: '' }, tty: false }), false)
  t.end()
})

t.test('progress is one line on a terminal, replaced by its result', (t) => {
  const { output, stdout, stderr } = outputOf({ width: 20 })
  const progress = output.progress('Reading')
  progress.update('Reading a very long name that does not fit')
  progress.done('Read it')
  progress.fail('too late')
  progress.update('too late')
  t.equal(stdout.text(), '')
  t.ok(stderr.text().includes('\u001b[2K⠙ Reading a very l…'))
  t.ok(stderr.text().endsWith('\u001b[2K✓ Read it\n'))
  t.notMatch(stderr.text(), /too late/)
  t.end()
})

t.test('an error is words on stderr, an object for a program, and an exit code', async (t) => {
  const plugins = {
    load: (): never => {
      throw new Error('none')
    },
  }
  const configError = await parseConfig('gatewai: 1', { file: 'a.yaml', env: {}, plugins }).catch(
    (error: unknown) => error,
  )
  for (const [error, code, shown] of [
    [new Error('It broke.'), 1, { code: 'FAILED', message: 'It broke.' }],
    [new TollgateError('NOT_FOUND', 'No such link.'), 1, { code: 'NOT_FOUND', message: 'No such link.' }],
    [new UsageError('Expected a name.'), 2, { code: 'USAGE', message: 'Expected a name.' }],
    [configError, 2, { code: 'CONFIG_INVALID', problems: [{}, {}, { path: 'gatewai', line: 1 }] }],
    ['a text', 1, { code: 'FAILED', message: 'a text' }],
  ] as const) {
    const { output, stdout, stderr } = outputOf({ json: true })
    t.equal(output.fail(error), code)
    t.match(JSON.parse(stdout.text()).error, shown)
    t.match(stderr.text(), /^error: ./)
  }
})

t.test('a text is cut to a width between characters, and keeps what fits', (t) => {
  t.equal(truncate('weather', 7), 'weather')
  t.equal(truncate('weather', 4), 'wea…')
  t.equal(truncate('天気予報', 5), '天気…')
  t.equal(truncate('天気予報', 4), '天…')
  t.equal(truncate('abc', 0), '')
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme' }),
      fc.nat(20),
      (text, width) => displayWidth(truncate(text, width)) <= width,
    ),
  )
  t.end()
})

t.test('a line is broken between words, or anywhere, and no word is lost', async (t) => {
  t.strictSame(wrap('to 0xabcdef and on', 10), ['to', '0xabcdef', 'and on'])
  t.strictSame(wrap('abcdefghijkl mn', 5), ['abcde', 'fghij', 'kl mn'])
  t.strictSame(wrap('a  b', 2, 'anywhere'), ['a ', ' b'])
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', maxLength: 60 }),
      fc.integer({ min: 2, max: 20 }),
      (text, columns) => {
        const isSame = wrap(text, columns, 'anywhere').join('') === text
        const words = wrap(text, columns)
        const isWhole = words.join('').replaceAll(' ', '') === text.replaceAll(' ', '')
        return (
          isSame &&
          isWhole &&
          [...words, ...wrap(text, columns, 'anywhere')].every((line) => displayWidth(line) <= columns)
        )
      },
    ),
  )
})
