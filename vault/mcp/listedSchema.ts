import type { Field } from '../requests/schema.ts'

/** A schema as every model API takes it: one type, no limits, no alternatives, no references. */
export interface ListedSchema {
  readonly type: string
  readonly description?: string
  readonly enum?: readonly string[]
  readonly items?: ListedSchema
  readonly properties?: Readonly<Record<string, ListedSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: false
}

/**
 * A field's schema for the list of tools. Where the vault takes several types, a text is one of them and is listed: of an
 * amount the exact form, of an object its JSON. Limits stay with the vault, whose errors name them.
 */
export function listedSchema(field: Field): ListedSchema {
  const { type, description, enum: values, items, properties } = field
  const types = [type].flat() as string[]
  return {
    type: types.includes('string') ? 'string' : types[0]!,
    ...(typeof description === 'string' && { description }),
    ...(values !== undefined && { enum: values as readonly string[] }),
    ...(items !== undefined && { items: listedSchema(items as Field) }),
    ...(properties !== undefined && { properties: listedFields(properties as Record<string, Field>) }),
  }
}

export const listedFields = (fields: Readonly<Record<string, Field>>): Record<string, ListedSchema> =>
  Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, listedSchema(field)]))
