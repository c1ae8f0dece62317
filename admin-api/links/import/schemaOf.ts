import { follow, isTree, type OpenApiDocument, type Tree, target } from './document.ts'

/** Maximum number of parts of one schema, including everything that it refers to. Agents do not read larger schemas. */
const MAX_PARTS = 5_000

/** Keywords whose value is not a schema. Names inside such a value are never keywords. */
const values = new Set(['const', 'default', 'enum', 'examples', 'required', 'dependentRequired', 'type'])
/** Keywords whose value contains schemas under names that the author chooses. */
const maps = new Set(['properties', 'patternProperties', 'dependentSchemas'])
/** Keywords that have no use outside the document, or have another meaning there. */
const dropped =
  /^(?:\$id|\$schema|\$anchor|\$dynamicAnchor|\$dynamicRef|\$defs|definitions|discriminator|xml|externalDocs|x-.*)$/

/**
 * A schema of the document as self-contained JSON Schema 2020-12. Its `$defs` contain the referenced schemas, so that a recursive
 * schema stays small. Keywords that only OpenAPI 3.0 has (`nullable`, `example`) are translated to JSON Schema.
 *
 * @returns undefined if it is too large
 * @throws {SkippedOperation} for references that leave the document or have no target
 */
export function schemaOf({ root, version }: OpenApiDocument, schema: unknown): Tree | undefined {
  const names = new Map<string, string>()
  const taken = new Set<string>()
  const waiting: [name: string, schema: unknown][] = []
  let left = MAX_PARTS

  function nameOf(reference: string): string {
    const known = names.get(reference)
    if (known !== undefined) return known
    const referred = target(root, reference)
    const last = reference
      .split('/')
      .at(-1)!
      .replace(/[^\w.-]/g, '_')
    const base = last === '' || last === '__proto__' ? 'schema' : last
    let name = base
    for (let n = 2; taken.has(name); n++) name = `${base}${n}`
    taken.add(name)
    names.set(reference, name)
    waiting.push([name, referred])
    return name
  }

  function converted(one: unknown): unknown {
    if (left-- <= 0) throw new TooLarge()
    if (Array.isArray(one)) return one.map(converted)
    if (!isTree(one)) return one
    const { $ref } = one
    const isReference = typeof $ref === 'string'
    // OpenAPI 3.0, Reference Object: "any sibling elements of a $ref are ignored".
    const read = isReference && version === '3.0' ? {} : version === '3.0' ? toOpenApi31(one) : one
    const entries = Object.entries(read).flatMap(([key, value]): [string, unknown][] => {
      if (key === '$ref' || dropped.test(key)) return []
      if (values.has(key)) return [[key, value]]
      if (maps.has(key) && isTree(value)) {
        const named = Object.entries(follow(root, value) ?? {})
        return [[key, Object.fromEntries(named.map(([name, of]) => [name, converted(of)]))]]
      }
      return [[key, converted(value)]]
    })
    return Object.fromEntries(isReference ? [...entries, ['$ref', `#/$defs/${nameOf($ref)}`]] : entries)
  }

  try {
    const whole = converted(follow(root, schema))
    const definitions: [string, unknown][] = []
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
      definitions.push([next[0], converted(next[1])])
    if (!isTree(whole)) return {}
    return definitions.length === 0 ? whole : { ...whole, $defs: Object.fromEntries(definitions) }
  } catch (error) {
    if (error instanceof TooLarge) return undefined
    throw error
  }
}

class TooLarge extends Error {}

/** Translates a schema of OpenAPI 3.0, which is JSON Schema of an early draft with exceptions (Schema Object, "Fixed Fields"). */
function toOpenApi31({ nullable, example, ...schema }: Tree): Tree {
  const { type, exclusiveMinimum, exclusiveMaximum, minimum, maximum } = schema
  const choices = schema['enum']
  return {
    ...schema,
    ...(nullable === true && typeof type === 'string' && { type: [type, 'null'] }),
    ...(nullable === true &&
      Array.isArray(choices) &&
      !choices.includes(null) && { enum: [...choices, null] }),
    ...(example !== undefined && { examples: [example] }),
    ...bound('minimum', 'exclusiveMinimum', minimum, exclusiveMinimum),
    ...bound('maximum', 'exclusiveMaximum', maximum, exclusiveMaximum),
  }
}

/** Translates a limit. A keyword with the value `undefined` does not appear in the resulting JSON. */
function bound(name: string, exclusive: string, limit: unknown, isExclusive: unknown): Tree {
  if (typeof isExclusive !== 'boolean') return {}
  return isExclusive ? { [exclusive]: limit, [name]: undefined } : { [exclusive]: undefined }
}

/** The schema without descriptions and examples, for schemas that are too long with them. */
export function briefly(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(briefly)
  if (!isTree(schema)) return schema
  const entries = Object.entries(schema).filter(
    ([key, value]) =>
      !(/^(?:description|title)$/.test(key) && typeof value === 'string') && key !== 'examples',
  )
  return Object.fromEntries(entries.map(([key, value]) => [key, briefly(value)]))
}
