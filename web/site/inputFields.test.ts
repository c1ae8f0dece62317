import fc from 'fast-check'
import t from 'tap'
import { inputErrors, inputFieldsOf, valuesOf } from './inputFields.ts'

t.test('properties become fields of their kind, and what was filled in becomes values again', async (t) => {
  const fields = inputFieldsOf({
    type: 'object',
    required: ['city'],
    properties: {
      city: { type: 'string', description: 'Where', example: 'Oslo' },
      days: { type: 'integer', default: 3 },
      units: { enum: ['metric', 'imperial'] },
      hourly: { type: 'boolean' },
      area: { type: 'array' },
      odd: true,
    },
  })
  t.strictSame(
    fields.map(({ name, kind, isRequired, example }) => [name, kind, isRequired, example]),
    [
      ['city', 'text', true, 'Oslo'],
      ['days', 'number', false, '3'],
      ['units', 'choice', false, ''],
      ['hourly', 'flag', false, ''],
      ['area', 'json', false, ''],
      ['odd', 'text', false, ''],
    ],
  )
  const filled = { city: 'Oslo', days: '4', units: '', hourly: 'false', area: '[1]', odd: 'x' }
  t.strictSame(valuesOf(fields, filled), { city: 'Oslo', days: 4, hourly: false, area: [1], odd: 'x' })
  t.strictSame([...inputErrors(fields, filled)], [])
  const wrong = inputErrors(fields, { days: 'four', area: '[' })
  t.strictSame([...wrong.keys()], ['city', 'days', 'area'])
  for (const days of [' ', '1e999', '1,5'])
    t.ok(inputErrors(fields, { city: 'Oslo', days }).has('days'), days)
})

t.test(
  'whatever a seller calls a schema is a list of fields, and never more than a form can hold',
  async () => {
    fc.assert(
      fc.property(fc.jsonValue(), (schema) => {
        const all = [schema, { properties: schema }, { properties: { a: schema }, required: schema }]
        return all.every((one) => inputFieldsOf(one).every((field) => typeof field.description === 'string'))
      }),
    )
    const many = Object.fromEntries(Array.from({ length: 999 }, (_, i) => [`f${i}`, {}]))
    t.equal(inputFieldsOf({ properties: many }).length, 40)
  },
)

t.test('a field called __proto__ is a field', async (t) => {
  const fields = inputFieldsOf(JSON.parse('{"properties":{"__proto__":{"type":"string"}}}'))
  t.equal(JSON.stringify(valuesOf(fields, JSON.parse('{"__proto__":"x"}'))), '{"__proto__":"x"}')
})
