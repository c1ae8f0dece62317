import type { Option, OptionsSchema } from '../plugin/options.ts'
import type { PluginDeclaration } from './check/checkPlugins.ts'
import { configSchema } from './schema.ts'

export type JsonSchema = { readonly [keyword: string]: unknown }

/** A plugin that an editor offers. The editor shows `description` beside the plugin's name. */
export type DescribedPlugin = PluginDeclaration & { readonly description?: string }

/**
 * The JSON Schema of a whole configuration file, for completion, hover texts and underlined mistakes. It is draft-07, which the
 * editors' YAML servers support best. It accepts what the loader accepts before it replaces variables, so any plain value may be
 * `${NAME}`, and a section may be empty.
 *
 * @param plugins the plugins whose `with` is described. Other plugins may have any options
 * @param schema the schema of the file, with a list `plugins`. The gateway's if absent
 */
export function configJsonSchema(
  plugins: readonly DescribedPlugin[],
  schema: OptionsSchema = configSchema,
): JsonSchema {
  const { properties, ...rest } = editorSchema(schema)
  const { plugins: list, ...others } = properties as Record<string, JsonSchema>
  const withPlugins = { ...list, items: pluginEntry(list!['items'] as JsonSchema, plugins) }
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...rest,
    properties: { ...others, plugins: withPlugins },
  }
}

function pluginEntry(entry: JsonSchema, plugins: readonly DescribedPlugin[]): JsonSchema {
  const { use, ...others } = entry['properties'] as Record<string, JsonSchema>
  const named = plugins.map(({ name, description, options }) => ({
    const: name,
    ...optional('description', description ?? options.description),
  }))
  return {
    ...entry,
    properties: {
      use: { description: use!['description'], anyOf: [...named, { type: 'string', minLength: 1 }] },
      ...others,
    },
    allOf: plugins.map(({ name, options }) => ({
      if: { properties: { use: { const: name } }, required: ['use'] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: {
        properties: { with: editorSchema(options) },
        ...(isNeeded(options) ? { required: ['use', 'with'] } : {}),
      },
    })),
  }
}

const isNeeded = ({ required, properties }: OptionsSchema): boolean =>
  (required ?? []).some((name) => !('default' in (properties[name] ?? {})))

/** The schema of one option for an editor. */
function editorSchema(option: OptionsSchema | Option): JsonSchema {
  const { type, properties, items, additionalProperties, propertyNames, ...rest } = {
    ...option,
  } as JsonSchema
  if (type === 'array') return { type: ['array', 'null'], ...rest, items: editorSchema(items as Option) }
  if (type !== 'object') return orVariable({ ...option })
  const members =
    properties === undefined
      ? {}
      : { properties: mapValues(properties as Record<string, Option>, editorSchema) }
  const others =
    typeof additionalProperties === 'object'
      ? editorSchema(additionalProperties as Option)
      : additionalProperties
  return {
    type: rest['default'] === undefined ? 'object' : ['object', 'null'],
    ...rest,
    ...members,
    additionalProperties: others,
    ...optional(
      'propertyNames',
      propertyNames === undefined ? undefined : withoutFormat(propertyNames as JsonSchema),
    ),
  }
}

/** A schema that accepts the plain value or a text with a variable. */
function orVariable(option: JsonSchema): JsonSchema {
  const {
    title,
    description,
    default: initial,
    deprecated,
    writeOnly,
    examples,
    ...check
  } = withoutFormat(option)
  const annotations = { title, description, default: initial, deprecated, writeOnly, examples }
  const isAnyText = check['type'] === 'string' && Object.keys(check).length === 1
  return {
    ...Object.fromEntries(Object.entries(annotations).filter(([, value]) => value !== undefined)),
    ...(isAnyText ? check : { anyOf: [check, { type: 'string', pattern: '\\$\\{.+\\}' }] }),
  }
}

/** Removes formats, because editors warn about formats that they do not support. The loader checks them. */
function withoutFormat(schema: JsonSchema): JsonSchema {
  const { format, ...rest } = schema
  return format === 'caip2'
    ? { ...rest, pattern: '^(eip155:[1-9]\\d{0,17}|solana:[1-9A-HJ-NP-Za-km-z]{32})$' }
    : rest
}

const optional = (key: string, value: unknown): JsonSchema => (value === undefined ? {} : { [key]: value })

const mapValues = <A, B>(record: Record<string, A>, map: (value: A) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]))
