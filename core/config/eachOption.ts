import type { Option, OptionsSchema } from '../plugin/options.ts'
import { childPointer, type Pointer } from './read/pointer.ts'

export interface PlacedOption {
  readonly option: Option
  readonly value: unknown
  readonly pointer: Pointer
}

/** Yields each plain value with the option that describes it, by walking values and schema side by side. */
export function* eachOption(
  schema: OptionsSchema | Option,
  value: unknown,
  pointer: Pointer,
): Iterable<PlacedOption> {
  if (Array.isArray(value)) {
    if (!('items' in schema)) return
    for (const [i, item] of value.entries()) yield* eachOption(schema.items, item, childPointer(pointer, i))
    return
  }
  if (typeof value !== 'object' || value === null) {
    yield { option: schema as Option, value, pointer }
    return
  }
  for (const [key, item] of Object.entries(value)) {
    const option = memberOf(schema, key)
    if (option !== undefined) yield* eachOption(option, item, childPointer(pointer, key))
  }
}

function memberOf(schema: OptionsSchema | Option, key: string): Option | undefined {
  if ('properties' in schema && Object.hasOwn(schema.properties, key)) return schema.properties[key]
  const others = 'additionalProperties' in schema ? schema.additionalProperties : false
  return typeof others === 'object' ? others : undefined
}
