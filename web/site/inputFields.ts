/** A form field, derived from a link's input schema. */
export interface InputField {
  readonly name: string
  readonly kind: 'text' | 'number' | 'flag' | 'choice' | 'json'
  readonly isRequired: boolean
  readonly description: string
  /** The choices of a select. */
  readonly options: readonly string[]
  /** Initial value or placeholder. */
  readonly example: string
}

/** Maximum number of fields. If a schema has more, the buyer fills in JSON. */
const MAX_FIELDS = 40
const MAX_OPTIONS = 100

type Schema = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The properties of an object's JSON Schema as form fields. Empty if a form cannot show them. */
export function inputFieldsOf(schema: unknown): InputField[] {
  if (!isObject(schema) || !isObject(schema['properties'])) return []
  const required = Array.isArray(schema['required']) ? schema['required'] : []
  return Object.entries(schema['properties'])
    .slice(0, MAX_FIELDS)
    .map(([name, given]) => toField(name, isObject(given) ? given : {}, required.includes(name)))
}

function toField(name: string, schema: Schema, isRequired: boolean): InputField {
  const { type, description, examples } = schema
  const choices = Array.isArray(schema['enum']) ? schema['enum'] : []
  const isChoice = choices.length > 0 && choices.every((one) => typeof one === 'string')
  const shown = schema['example'] ?? (Array.isArray(examples) ? examples[0] : undefined) ?? schema['default']
  return {
    name,
    kind: isChoice ? 'choice' : kindOf(type),
    isRequired,
    description: typeof description === 'string' ? description : '',
    options: isChoice ? choices.slice(0, MAX_OPTIONS) : [],
    example: shown === undefined ? '' : typeof shown === 'string' ? shown : JSON.stringify(shown),
  }
}

function kindOf(type: unknown): InputField['kind'] {
  if (type === 'number' || type === 'integer') return 'number'
  if (type === 'boolean') return 'flag'
  return type === 'object' || type === 'array' ? 'json' : 'text'
}

/** Errors of the filled-in values, by the field's name. */
export function inputErrors(
  fields: readonly InputField[],
  filled: Readonly<Record<string, string>>,
): ReadonlyMap<string, string> {
  const errors = new Map<string, string>()
  for (const { name, kind, isRequired } of fields) {
    const text = filled[name] ?? ''
    const isChosen = kind === 'choice' || kind === 'flag'
    if (text === '') {
      if (isRequired)
        errors.set(
          name,
          isChosen ? 'Choose a value. This field is required.' : 'Enter a value. This field is required.',
        )
    } else if (kind === 'number' && (text.trim() === '' || !Number.isFinite(Number(text))))
      errors.set(name, 'Enter a number, such as 3 or 0.5.')
    else if (kind === 'json' && !isJson(text))
      errors.set(name, 'Enter JSON, such as {"city": "Lisbon"} or [1, 2].')
  }
  return errors
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/**
 * The filled-in values for a request. They are text in a query, and typed values in a JSON body. Empty fields are omitted.
 * @param filled values for which {@link inputErrors} found no error
 */
export function valuesOf(
  fields: readonly InputField[],
  filled: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const values: [string, unknown][] = []
  for (const { name, kind } of fields) {
    const text = filled[name] ?? ''
    if (text === '') continue
    if (kind === 'number') values.push([name, Number(text)])
    else if (kind === 'flag') values.push([name, text === 'true'])
    else if (kind === 'json') values.push([name, JSON.parse(text)])
    else values.push([name, text])
  }
  return Object.fromEntries(values)
}
