import type { Option, OptionsSchema } from '../plugin/options.ts'
import { configSchema } from './schema.ts'

/**
 * The reference part of a guide to a configuration, such as docs/configuration.md: a table of the plain top-level
 * options, then one section for each group.
 */
export function configReference(schema: OptionsSchema = configSchema): string {
  const entries = Object.entries(schema.properties)
  const plain = entries.filter(([, option]) => !isGroup(option))
  const groups = entries.filter(([, option]) => isGroup(option))
  const top = { ...schema, properties: Object.fromEntries(plain) }
  const sections = groups.map(
    ([name, option]) => `### ${name}\n\n${option.description}\n\n${optionsTable(option)}`,
  )
  return [`### At the top\n\n${optionsTable(top)}`, ...sections].join('\n\n')
}

/**
 * A Markdown table of options with their types, defaults and descriptions; members of inner objects are listed by their
 * full path (`facilitator.url`, `when.links`).
 */
export function optionsTable(schema: OptionsSchema | Option): string {
  const rows = [...rowsOf(schema, '')]
  if (rows.length === 0) return 'No options.'
  return alignTable([['Option', 'Type', 'Default', 'What it does'], ...rows])
}

/** Puts a generated text between the markers `<!-- name:start -->` and `<!-- name:end -->`; undefined without them. */
export function replaceGenerated(document: string, name: string, generated: string): string | undefined {
  const start = `<!-- ${name}:start -->`
  const end = `<!-- ${name}:end -->`
  const from = document.indexOf(start)
  const to = document.indexOf(end)
  if (from < 0 || to < from) return undefined
  return `${document.slice(0, from + start.length)}\n${generated}\n${document.slice(to)}`
}

function* rowsOf(schema: OptionsSchema | Option, path: string): Iterable<string[]> {
  if ('properties' in schema) {
    for (const [name, option] of Object.entries(schema.properties)) {
      const isRequired = schema.required?.includes(name) === true
      const full = path === '' ? name : `${path}.${name}`
      yield row(full, option, isRequired)
      yield* rowsOf(option, full)
    }
    return
  }
  if ('items' in schema && isGroup(schema.items)) yield* rowsOf(schema.items, `${path}[]`)
  const values = 'additionalProperties' in schema ? schema.additionalProperties : false
  if (typeof values === 'object' && isGroup(values))
    yield* rowsOf(values, path === '' ? '<id>' : `${path}.<id>`)
}

function row(path: string, option: Option, isRequired: boolean): string[] {
  const initial = option.default === undefined || isGroup(option) ? '' : code(JSON.stringify(option.default))
  return [code(path), typeOf(option), isRequired ? 'required' : initial, describe(option)]
}

function describe(option: Option): string {
  const limits = limitsOf(option)
  return limits === '' ? option.description : `${option.description} (${limits})`
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
  if ('enum' in option) return option.enum.map((value) => code(String(value))).join(', ')
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

const code = (text: string): string => `\`${text}\``

/** A Markdown table whose columns are lined up, the first row its head. */
export function alignTable(rows: readonly string[][]): string {
  const cells = rows.map((row) => row.map(cell))
  const widths = cells[0]!.map((_, i) => Math.max(...cells.map((row) => row[i]!.length)))
  const line = (texts: readonly string[]) =>
    `| ${texts.map((text, i) => text.padEnd(widths[i]!)).join(' | ')} |`
  const rule = line(widths.map((width) => '-'.repeat(width)))
  const [head, ...body] = cells.map(line)
  return [head, rule, ...body].join('\n')
}

/** A bar would end the cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
