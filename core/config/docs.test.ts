import t from 'tap'
import { codes } from '../errors/codes.ts'
import { errorTable } from './docs.ts'

t.test('every code stands in exactly one table, with its status, its meaning and its remedy', async (t) => {
  const lines = (['api', 'calls'] as const).flatMap((audience) => errorTable(audience).split('\n').slice(2))
  t.equal(lines.length, Object.keys(codes).length)
  for (const [code, { status, meaning, remedy }] of Object.entries(codes)) {
    const own = lines.filter((line) => line.startsWith(`| \`${code}\` `))
    t.equal(own.length, 1, code)
    const cells = own[0]!.split('|').map((cell) => cell.trim())
    t.strictSame([cells[2], cells[4], cells[5]], [String(status), meaning, remedy])
  }
})

t.test('the two ways of writing a code do not mix: the case says who sees it', async (t) => {
  t.match(errorTable('api'), '`LINK_NOT_FOUND`')
  t.notMatch(errorTable('api'), '`link_not_found`')
  t.match(errorTable('calls'), '`settlement_pending`')
})
