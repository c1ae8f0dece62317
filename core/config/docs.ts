import { stringify } from 'yaml'
import { codes } from '../errors/codes.ts'
import type { Option, OptionsSchema } from '../plugin/options.ts'
import { configSchema } from './schema.ts'

/**
 * The reference of a configuration, such as docs/reference/configuration.md. It has the plain top-level options, then a section
 * with an example for each group.
 */
export function configReference(schema: OptionsSchema = configSchema): string {
  const entries = Object.entries(schema.properties)
  const plain = entries.filter(([, option]) => !isGroup(option))
  const groups = entries.filter(([, option]) => isGroup(option))
  const top = { ...schema, properties: Object.fromEntries(plain) }
  const sections = groups.map(([name, option]) => {
    const example = option.examples?.[0]
    return section(name, option, example === undefined ? undefined : { [name]: example })
  })
  return [section('At the top', top, schema.examples?.[0]), ...sections].join('\n\n')
}

/** The options of all plugins, with a section for each plugin. */
export const pluginReference = (
  plugins: readonly { readonly name: string; readonly options: OptionsSchema }[],
): string =>
  plugins
    .map(({ name, options }) => {
      const example = options.examples?.[0]
      return section(
        name,
        options,
        example === undefined ? undefined : { plugins: [{ use: name, with: example }] },
      )
    })
    .join('\n\n')

function section(title: string, schema: OptionsSchema | Option, example: unknown): string {
  const about = title === 'At the top' ? [] : [schema.description ?? '']
  const shown = example === undefined ? [] : [`\`\`\`yaml\n${stringify(example)}\`\`\``]
  return [`### ${title}`, ...about, ...shown, optionsList(schema)].filter((part) => part !== '').join('\n\n')
}

/**
 * A Markdown list of options with types, defaults and descriptions. The options of the schema's example come first, because they
 * are the common ones. Members of inner objects have their full path (`facilitator.url`, `when.links`).
 */
export function optionsList(schema: OptionsSchema | Option): string {
  const common = new Set(pathsOf(schema, schema.examples?.[0], ''))
  const rows = [...rowsOf(schema, '')]
  const lines = (isCommon: boolean) =>
    rows.filter(({ path }) => common.has(path) === isCommon).map(({ line }) => line)
  const [first, others] = [lines(true), lines(false)]
  if (rows.length === 0) return 'No options.'
  if (first.length === 0) return others.join('\n')
  return [first.join('\n'), ...(others.length === 0 ? [] : ['Less common:', others.join('\n')])].join('\n\n')
}

/** The readers of an error code, which are clients of the marketplace API or callers of links. */
export type Audience = 'api' | 'calls'

/** The Markdown table of docs/reference/errors.md with every code for one audience. */
export const errorTable = (audience: Audience): string =>
  codeTable(
    Object.fromEntries(
      Object.entries(codes).filter(([code]) => (code === code.toUpperCase() ? 'api' : 'calls') === audience),
    ),
  )

/** The fields of a code in a table. */
interface ShownCode {
  readonly status: number
  readonly meaning: string
  readonly remedy: string
  readonly retryable: boolean
}

/**
 * A Markdown table of error codes, by status and name. It says whether the same request may be repeated, what happened, and what to
 * do.
 */
export function codeTable(codes: Readonly<Record<string, ShownCode>>): string {
  const rows = Object.entries(codes)
    .sort(([a, x], [b, y]) => x.status - y.status || (a < b ? -1 : 1))
    .map(([code, { status, retryable, meaning, remedy }]) => [
      `\`${code}\``,
      String(status),
      retryable ? 'yes' : 'no',
      meaning,
      remedy,
    ])
  return markdownTable([['Code', 'Status', 'Repeat?', 'What happened', 'What to do'], ...rows])
}

function* rowsOf(
  schema: OptionsSchema | Option,
  path: string,
): Iterable<{ readonly path: string; readonly line: string }> {
  if ('properties' in schema) {
    for (const [name, option] of Object.entries(schema.properties)) {
      const isRequired = schema.required?.includes(name) === true
      const full = path === '' ? name : `${path}.${name}`
      yield { path: full, line: lineOf(full, option, isRequired) }
      yield* rowsOf(option, full)
    }
    return
  }
  const inner = elementOf(schema, path)
  if (inner !== undefined) yield* rowsOf(inner.option, inner.path)
}

/** The paths of an example's options. */
function* pathsOf(schema: OptionsSchema | Option, example: unknown, path: string): Iterable<string> {
  if (typeof example !== 'object' || example === null) return
  if ('properties' in schema) {
    for (const [name, value] of Object.entries(example)) {
      const option = schema.properties[name]
      const full = path === '' ? name : `${path}.${name}`
      yield full
      if (option !== undefined) yield* pathsOf(option, value, full)
    }
    return
  }
  const inner = elementOf(schema, path)
  if (inner === undefined) return
  for (const value of Object.values(example)) yield* pathsOf(inner.option, value, inner.path)
}

/** The schema of the entries of a list or table of groups, and the path of the entries. */
function elementOf(
  schema: OptionsSchema | Option,
  path: string,
): { option: Option; path: string } | undefined {
  if ('items' in schema && isGroup(schema.items)) return { option: schema.items, path: `${path}[]` }
  const values = 'additionalProperties' in schema ? schema.additionalProperties : false
  if (typeof values !== 'object' || !isGroup(values)) return
  return { option: values, path: path === '' ? '<id>' : `${path}.<id>` }
}

/** Maximum length of a default in the reference, in characters. A longer default is left out. */
const MAX_DEFAULT_CHARS = 100

function lineOf(path: string, option: Option, isRequired: boolean): string {
  const initial = option.default === undefined || isGroup(option) ? '' : JSON.stringify(option.default)
  const facts = [
    typeOf(option),
    isRequired ? 'required' : '',
    initial === '' ? '' : initial.length > MAX_DEFAULT_CHARS ? 'has a default' : `default \`${initial}\``,
    limitsOf(option),
  ]
  return `- \`${path}\` (${facts.filter((fact) => fact !== '').join(', ')}): ${option.description.replaceAll('\n', ' ')}`
}

function limitsOf(option: Option): string {
  const { minimum, maximum, exclusiveMinimum } = option as {
    minimum?: number
    maximum?: number
    exclusiveMinimum?: number
  }
  if (exclusiveMinimum !== undefined) return `above ${exclusiveMinimum}`
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`
  if (minimum !== undefined) return minimum === 0 ? '' : `at least ${minimum}`
  return maximum === undefined ? '' : `at most ${maximum}`
}

function typeOf(option: Option): string {
  if ('enum' in option) return option.enum.map((value) => `\`${String(value)}\``).join(' or ')
  if (option.type === 'array')
    return `list of ${'enum' in option.items ? typeOf(option.items) : plural(option.items)}`
  if (option.type === 'string' && option.format !== undefined) return formatNames[option.format]
  if (option.type === 'string') return 'text'
  return option.type
}

const formatNames = {
  url: 'URL',
  path: 'path',
  cidr: 'address range',
  'ip-port': 'IP address',
  caip2: 'network id',
  decimal: 'decimal text',
} as const

const plural = (option: Option): string => {
  const name = typeOf(option)
  return name.endsWith('s') ? `${name}es` : `${name}s`
}

const isGroup = (option: Option): boolean =>
  'properties' in option ||
  ('items' in option && isGroup(option.items)) ||
  ('additionalProperties' in option &&
    typeof option.additionalProperties === 'object' &&
    isGroup(option.additionalProperties))

/** A Markdown table. The first row is the head. */
export function markdownTable(rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`
  const [head, ...body] = rows
  return [line(head!), `|${' --- |'.repeat(head!.length)}`, ...body.map(line)].join('\n')
}

/** Escapes bars, because a bar would end the cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
