import t from 'tap'
import { assignments, createTemplates, free, list, locked, part, row, type Slot } from './transaction.ts'

const sql = (strings: TemplateStringsArray, ...slots: Slot[]) => ({ strings, slots })

/** Templates whose prepared statement is the text itself, and a count of the preparations. */
function counting(dialect: 'sqlite' | 'postgres') {
  const prepared: string[] = []
  const of = createTemplates(dialect, (text) => {
    prepared.push(text)
    return text
  })
  return { prepared, of: ({ strings, slots }: ReturnType<typeof sql>) => of(strings, slots) }
}

t.test('values become parameters, and words are those of the database', async (t) => {
  const statement = sql`SELECT a FROM b WHERE c = ${1} AND d IN ${list(['x', 'y'])} AND e = ${'f'} ${locked}`
  t.strictSame(counting('sqlite').of(statement), {
    prepared: 'SELECT a FROM b WHERE c = ? AND d IN (SELECT value FROM json_each(?)) AND e = ? ',
    parameters: [1, '["x","y"]', 'f'],
  })
  t.strictSame(counting('postgres').of(statement), {
    prepared:
      'SELECT a FROM b WHERE c = $1 AND d IN (SELECT jsonb_array_elements_text($2::jsonb)) AND e = $3 FOR NO KEY UPDATE',
    parameters: [1, '["x","y"]', 'f'],
  })
})

t.test('a row and assignments name their columns; those that are undefined are left out', async (t) => {
  const { of } = counting('postgres')
  t.strictSame(of(sql`INSERT INTO a ${row({ b: 1, c: null })}`), {
    prepared: 'INSERT INTO a (b, c) VALUES ($1, $2)',
    parameters: [1, null],
  })
  t.strictSame(of(sql`UPDATE a SET ${assignments({ b: 'x', c: undefined, d: null })} WHERE e = ${2n}`), {
    prepared: 'UPDATE a SET b = $1, d = $2 WHERE e = $3',
    parameters: ['x', null, 2n],
  })
})

t.test('a part brings its own slots, in their place, and is part of the shape', async (t) => {
  const { of, prepared } = counting('postgres')
  const among = (ids: string[]) => part`b IN ${list(ids)} AND c = ${'x'}`
  const select = (id: number, condition: ReturnType<typeof part>) =>
    of(sql`SELECT 1 FROM a WHERE id = ${id} AND ${condition} LIMIT ${9}`)
  t.strictSame(select(1, part`(${among(['y'])}) ${locked}`), {
    prepared:
      'SELECT 1 FROM a WHERE id = $1 AND (b IN (SELECT jsonb_array_elements_text($2::jsonb)) AND c = $3) FOR NO KEY UPDATE LIMIT $4',
    parameters: [1, '["y"]', 'x', 9],
  })
  select(2, part`(${among([])}) ${locked}`)
  t.equal(prepared.length, 1)
  for (const other of [part`(${among([])}) ${free}`, among([]), part`b = ${'x'}`]) select(3, other)
  t.equal(prepared.length, 4)
})

t.test('a template is prepared once for each shape of its pieces', async (t) => {
  const { of, prepared } = counting('sqlite')
  const select = (id: number, isFree: boolean) =>
    of(sql`SELECT 1 FROM a WHERE id = ${id} ${isFree ? free : locked}`)
  const update = (columns: Record<string, number>) => of(sql`UPDATE a SET ${assignments(columns)}`)
  t.strictSame(select(1, false).parameters, [1])
  t.strictSame(select(2, false).parameters, [2])
  t.equal(prepared.length, 1)
  select(3, true)
  t.equal(prepared.length, 2)
  for (const columns of [{ a: 1 }, { a: 2 }, { a: 1, b: 2 }, { b: 1 }, { a: 3, b: 4 }]) update(columns)
  t.strictSame(prepared.slice(2), ['UPDATE a SET a = ?', 'UPDATE a SET a = ?, b = ?', 'UPDATE a SET b = ?'])
  of(sql`SELECT 1 FROM a WHERE id = ${1} ${locked}`)
  t.equal(prepared.length, 6, 'another template is another statement')
})
