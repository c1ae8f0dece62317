declare const checked: unique symbol

/** A JSON Schema (2020-12) of one value, with the type of valid values. */
export interface Field<T = unknown> {
  readonly [checked]?: T
  readonly [keyword: string]: unknown
}

/** Fields by name. A name that ends in `?` is optional. */
export type FieldTable = Readonly<Record<string, Field>>

/** The type of a valid object with these fields. */
export type ValuesOf<P extends FieldTable> = {
  readonly [K in keyof P as K extends `${string}?` ? never : K]: ValueOf<P[K]>
} & {
  readonly [K in keyof P as K extends `${infer Name}?` ? Name : never]?: ValueOf<P[K]>
}
type ValueOf<F> = F extends { readonly [checked]?: infer T } ? T : unknown

/** A JSON Schema (2020-12) of an object, as tools describe their input and output. */
export interface ObjectSchema<T = unknown> extends Field<T> {
  readonly type: 'object'
  readonly properties: Readonly<Record<string, object>>
  readonly required: readonly string[]
  readonly additionalProperties: boolean
}

/** An object with only these fields. */
export function object<P extends FieldTable>(fields: P): ObjectSchema<ValuesOf<P>> {
  const entries = Object.entries(fields)
  return {
    type: 'object',
    properties: Object.fromEntries(entries.map(([name, schema]) => [name.replace(/\?$/, ''), schema])),
    required: entries.map(([name]) => name).filter((name) => !name.endsWith('?')),
    additionalProperties: false,
  }
}

/**
 * A string.
 * @param description omitted if the name says enough
 * @param maxLength in characters. With it, the string may not be empty
 */
export const text = (description?: string, maxLength?: number): Field<string> => ({
  type: 'string',
  ...(maxLength !== undefined && { minLength: 1, maxLength }),
  ...(description !== undefined && { description }),
})

/** One of these strings. */
export const choice = <const T extends string>(values: readonly T[], description?: string): Field<T> => ({
  type: 'string',
  enum: values,
  ...(description !== undefined && { description }),
})

export const wholeNumber = (minimum: number, maximum: number, description?: string): Field<number> => ({
  type: 'integer',
  minimum,
  maximum,
  ...(description !== undefined && { description }),
})

export const boolean = (description?: string): Field<boolean> => ({
  type: 'boolean',
  ...(description !== undefined && { description }),
})
export const list = <T>(items: Field<T>, description?: string): Field<readonly T[]> => ({
  type: 'array',
  items,
  ...(description !== undefined && { description }),
})
export const anyObject = (description: string): Field<Readonly<Record<string, unknown>>> => ({
  type: 'object',
  description,
})

/** An object with any fields, or its JSON text, because some models can only fill in strings. */
export const objectOrText = (description?: string): Field<string | Readonly<Record<string, unknown>>> => ({
  type: ['string', 'object'],
  ...(description !== undefined && { description }),
})

/** An exact amount in whole units, as a number of at most 15 digits or as a decimal string. */
export const amount = (description?: string): Field<number | string> => ({
  type: ['number', 'string'],
  ...(description !== undefined && { description }),
})
