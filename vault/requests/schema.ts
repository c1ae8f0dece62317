/** A JSON Schema (2020-12) of an object, as tools describe what they take and give. */
export interface ObjectSchema {
  readonly type: 'object'
  readonly properties: Readonly<Record<string, object>>
  readonly required: readonly string[]
  readonly additionalProperties: boolean
}

/** What a tool gives: its result, a question that is still open, or an error. The protocol wants `object` at the root. */
export interface OutputSchema {
  readonly type: 'object'
  readonly anyOf: readonly ObjectSchema[]
}

/** An object of these properties only; a name that ends in `?` may be missing. */
export function object(properties: Readonly<Record<string, object>>): ObjectSchema {
  const entries = Object.entries(properties)
  return {
    type: 'object',
    properties: Object.fromEntries(entries.map(([name, schema]) => [name.replace(/\?$/, ''), schema])),
    required: entries.map(([name]) => name).filter((name) => !name.endsWith('?')),
    additionalProperties: false,
  }
}

/** A text. @param description what it is, for whoever fills it in */
export const text = (description: string, maxLength?: number): object => ({
  type: 'string',
  ...(maxLength !== undefined && { minLength: 1, maxLength }),
  description,
})

/** One of these texts. */
export const choice = (values: readonly string[], description: string): object => ({
  type: 'string',
  enum: values,
  description,
})

export const wholeNumber = (minimum: number, maximum: number, description: string): object => ({
  type: 'integer',
  minimum,
  maximum,
  description,
})

export const boolean = (description: string): object => ({ type: 'boolean', description })
export const textOrNull = (description: string): object => ({ type: ['string', 'null'], description })
export const list = (items: object, description: string): object => ({ type: 'array', items, description })
export const anyObject = (description: string): object => ({ type: 'object', description })

/** An amount in whole units, exact: a number of at most 15 digits, or a decimal text. */
export const amount = (description: string): object => ({ type: ['number', 'string'], description })
