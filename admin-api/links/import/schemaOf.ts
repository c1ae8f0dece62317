import { isTree, type OpenApiDocument, type Tree } from './document.ts'
import { follow, target } from './references.ts'

/** Parts of one schema, with all that it leads to; larger ones are no input that an agent reads. */
const MAX_PARTS = 5_000

/** Keywords whose value is no schema: what looks like a keyword in there is none. */
const values = new Set(['const', 'default', 'enum', 'examples', 'required', 'dependentRequired', 'type'])
/** Keywords whose value has schemas under names that anybody may choose. */
const maps = new Set(['properties', 'patternProperties', 'dependentSchemas'])
/** Of no use outside the document, or of another meaning there. */
const dropped =
  /^(?:\$id|\$schema|\$anchor|\$dynamicAnchor|\$dynamicRef|\$defs|definitions|discriminator|xml|externalDocs|x-.*)$/

/**
 * A schema of the document as JSON Schema 2020-12 that stands by itself: what it refers to is in its `$defs`, so that one
 * that leads to itself stays as small as it is. What OpenAPI 3.0 says in words of its own (`nullable`, `example`) is said in
 * those of JSON Schema.
 *
 * @returns undefined when it is too large
 * @throws {LeftOut} for references that lead elsewhere or nowhere
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
    const read = isReference && version === '3.0' ? {} : version === '3.0' ? inNewWords(one) : one
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

/** A schema of OpenAPI 3.0, which is JSON Schema of an early draft with exceptions (Schema Object, "Fixed Fields"). */
function inNewWords({ nullable, example, ...schema }: Tree): Tree {
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

/** `undefined` leaves a keyword out of the JSON that is made of it. */
function bound(name: string, exclusive: string, limit: unknown, isExclusive: unknown): Tree {
  if (typeof isExclusive !== 'boolean') return {}
  return isExclusive ? { [exclusive]: limit, [name]: undefined } : { [exclusive]: undefined }
}

/** The same without what only explains: for schemas that are too long with it. */
export function briefly(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(briefly)
  if (!isTree(schema)) return schema
  const entries = Object.entries(schema).filter(
    ([key, value]) =>
      !(/^(?:description|title)$/.test(key) && typeof value === 'string') && key !== 'examples',
  )
  return Object.fromEntries(entries.map(([key, value]) => [key, briefly(value)]))
}
