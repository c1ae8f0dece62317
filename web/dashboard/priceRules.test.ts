import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { REPEATED_CONDITION, repeatedCondition, tableIn, textOf } from './priceRules.ts'

const word = fc.stringMatching(/^[a-z0-9/*._-]{1,12}$/)
const values = fc.oneof(word, fc.array(word, { minLength: 2, maxLength: 4 }))
const named = fc.dictionary(word, values, { minKeys: 1, maxKeys: 3, noNullPrototype: true })
const table = fc.record({
  rules: fc.array(
    fc.record({
      when: fc.record(
        { method: values, path: values, query: named, header: named, body: named },
        { requiredKeys: [] },
      ),
      price: fc.constantFrom('0.01', '5'),
    }),
    { minLength: 1, maxLength: 4 },
  ),
  otherwise: fc.option(fc.constant('0.02')),
})

t.test('a table that the fields show is the same table when it is written again', (t) => {
  fc.assert(
    fc.property(table, (given) => {
      const fields = tableIn(JSON.stringify(given))
      t.ok(fields)
      // Not t.strictSame, which takes objects with a key "constructor" for different ones.
      assert.deepStrictEqual(JSON.parse(textOf(fields!)), JSON.parse(JSON.stringify(given)))
      t.equal(repeatedCondition(fields!), undefined)
    }),
  )
  t.end()
})

t.test('what the fields cannot show is left as JSON', (t) => {
  const rule = (when: unknown, more: object = {}) => ({
    rules: [{ when, price: '1', ...more }],
    otherwise: null,
  })
  for (const given of [
    '{"rules": [',
    [],
    { url: 'https://a.example/price', max: '1', fallback: null },
    { upTo: '1' },
    { ...rule({ path: '/a' }), note: 'x' },
    rule({ path: '/a' }, { note: 'x' }),
    rule({ query: { q: 'a,b' } }),
    rule({ query: { q: ' a' } }),
    rule({ query: { q: ['a', ''] } }),
    rule({ host: 'a' }),
    rule({ query: 'a' }),
    rule({ path: 5 }),
  ])
    t.equal(
      tableIn(typeof given === 'string' ? given : JSON.stringify(given)),
      undefined,
      JSON.stringify(given),
    )
  t.end()
})

t.test('two conditions on one part are found, because JSON has room for one', (t) => {
  const fields = tableIn('{"rules":[{"when":{"header":{"a":"1","b":"2"}},"price":"1"}],"otherwise":null}')!
  const [rule] = fields.rules
  const same = { ...rule!, conditions: rule!.conditions.map((one) => ({ ...one, name: 'A' })) }
  const repeated = { ...fields, rules: [rule!, same] }
  t.strictSame(repeatedCondition(repeated), { rule: 1 })
  t.equal(textOf(repeated), REPEATED_CONDITION)
  t.end()
})
