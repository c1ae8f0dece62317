import t from 'tap'
import type { OptionsSchema } from '../plugin/options.ts'
import { configReference, optionsList, pluginReference } from './docs.ts'

const options = {
  type: 'object',
  additionalProperties: false,
  description: 'Keeps a shop.',
  required: ['name'],
  examples: [{ name: 'Ann', shelves: [{ wide: 3 }] }],
  properties: {
    hours: { type: 'integer', minimum: 1, maximum: 24, default: 8, description: 'Hours a day.' },
    name: { type: 'string', description: 'Its name.' },
    shelves: {
      type: 'array',
      description: 'Its shelves.',
      items: {
        type: 'object',
        additionalProperties: false,
        description: 'One shelf.',
        properties: {
          wide: { type: 'number', exclusiveMinimum: 0, description: 'Meters.' },
          color: { enum: ['red', 'blue'], default: 'red', description: 'Its color.' },
        },
      },
    },
  },
} as const satisfies OptionsSchema

t.test('the options of the example come first, and each has its type, default and limits', async (t) => {
  t.equal(
    optionsList(options),
    [
      '- `name` (text, required): Its name.',
      '- `shelves` (list of objects): Its shelves.',
      '- `shelves[].wide` (number, above 0): Meters.',
      '',
      'Less common:',
      '',
      '- `hours` (integer, default `8`, 1 to 24): Hours a day.',
      '- `shelves[].color` (`red` or `blue`, default `"red"`): Its color.',
    ].join('\n'),
  )
  const { examples: _, ...withoutExample } = options
  t.notMatch(optionsList(withoutExample), 'Less common')
  t.equal(optionsList({ type: 'object', additionalProperties: false, properties: {} }), 'No options.')
})

t.test('a section has its description, its example as YAML and its options', async (t) => {
  const reference = pluginReference([{ name: 'shop', options }])
  t.match(
    reference,
    '### shop\n\nKeeps a shop.\n\n```yaml\nplugins:\n  - use: shop\n    with:\n      name: Ann\n',
  )
  t.match(
    configReference(options),
    /### At the top\n\n```yaml\n[\s\S]*### shelves\n\nIts shelves\.\n\n- `\[\]\.wide`/,
  )
})

t.test('every section of the configuration has an example', async (t) => {
  for (const section of configReference().split(/^### /m).slice(1))
    t.match(section, /^```yaml$/m, section.split('\n')[0]!)
})
