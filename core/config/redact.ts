interface Node {
  readonly type?: unknown
  readonly enum?: readonly unknown[]
  readonly writeOnly?: boolean
  readonly properties?: Readonly<Record<string, Node>>
  readonly items?: Node
  readonly additionalProperties?: Node | boolean
}

/** The text that is printed instead of a secret. */
export const hiddenValue = '(hidden)'

/**
 * A configuration without its secrets. It hides every value that its schema marks as `writeOnly`, and every text without a schema,
 * such as an option of a third-party plugin.
 */
export function redact(value: unknown, schema: Node | undefined): unknown {
  if (value === undefined || value === null) return value
  if (schema?.writeOnly) return hiddenValue
  if (Array.isArray(value)) return value.map((one) => redact(one, schema?.items))
  if (typeof value === 'object') {
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => [name, redact(one, schemaOf(schema, name))]),
    )
  }
  return schema === undefined && typeof value === 'string' ? hiddenValue : value
}

function schemaOf(schema: Node | undefined, name: string): Node | undefined {
  if (schema?.properties !== undefined && Object.hasOwn(schema.properties, name))
    return schema.properties[name]
  return typeof schema?.additionalProperties === 'object' ? schema.additionalProperties : undefined
}
