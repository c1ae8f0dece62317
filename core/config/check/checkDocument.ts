import { dirname, resolve } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Infer, OptionsSchema } from '../../plugin/options.ts'
import { eachOption } from '../eachOption.ts'
import { type Environment, type Expanded, type ExpansionFinding, expand } from '../read/interpolate.ts'
import { displayPath, isInside, type Pointer, setAt, valueAt } from '../read/pointer.ts'
import { readSource, type Source, type Span } from '../read/source.ts'
import type { PluginConfig } from '../schema.ts'
import { checkPlugins, type PluginDeclaration, type PluginSource } from './checkPlugins.ts'
import { explain, type Finding } from './explain.ts'
import { ConfigError, type ConfigProblem } from './problem.ts'
import { compileSchema, validateAndMend, withoutEchoes } from './validate.ts'

/** A loaded plugin of the configuration's list, with checked options. Gateway and vault are built from these. */
export interface LoadedPlugin<P> {
  readonly plugin: P
  readonly options: PluginConfig['with']
  readonly when?: PluginConfig['when']
}

/** Facts that a rule about several options can read besides the values. */
export interface DocumentFacts {
  /** True if the file itself sets the value. A default cannot be the operator's mistake. */
  isWritten(pointer: Pointer): boolean
  /** True if the value, or a part of it, comes from a variable. */
  isFromEnvironment(pointer: Pointer): boolean
  /** The value for a message, as the file has it. It is `${NAME}` if it comes from the environment. */
  shown(pointer: Pointer): string
}

export interface DocumentOptions<S extends OptionsSchema, P extends PluginDeclaration> {
  /** Name of the text in messages. Relative paths in the text start from its folder. */
  readonly file: string
  /** The variables for `${NAME}`, usually `process.env`. */
  readonly env: Environment
  /** Everything that the document may contain. Its list `plugins` has entries `{use, with}`. */
  readonly schema: S
  readonly plugins: PluginSource<P>
  /** Checks what the schema cannot express. `found` contains the problems found so far. */
  readonly rules?: (values: Infer<S>, facts: DocumentFacts, found: readonly Finding[]) => readonly Finding[]
}

export interface CheckedDocument<S extends OptionsSchema, P> {
  /** The values with every default, with absolute paths, and with every `${NAME}` replaced. */
  readonly values: Infer<S>
  readonly plugins: readonly LoadedPlugin<P>[]
  /** Values that are allowed, but probably not what the operator meant. They are printed at startup. */
  readonly warnings: readonly ConfigProblem[]
}

/** The part of a gateway's or vault's configuration that this module reads. */
interface WithPlugins {
  plugins: PluginConfig[]
}

/**
 * Reads the text of a configuration of the gateway or the vault, which is YAML, or JSON if the file's name ends in `.json`. It
 * replaces `${NAME}`, checks the values and the plugins' options, fills in the defaults, and makes relative paths absolute from the
 * folder of the file.
 *
 * @throws {ConfigError} with every problem at once
 */
export async function checkDocument<S extends OptionsSchema, P extends PluginDeclaration>(
  text: string,
  { file, env, schema, plugins: pluginSource, rules }: DocumentOptions<S, P>,
): Promise<CheckedDocument<S, P>> {
  const source = readSource(file, text)
  if (source.problems.length > 0)
    throw new ConfigError(
      source.problems.map((p) => locateSpan(source, p)),
      text,
    )

  // While a gateway reloads its configuration, calls run between the steps, here and before each plugin.
  await nextTurn()
  const expanded = expand(source.tree, env)
  const tree = withDefaultPlugins(expanded.tree as WithPlugins, pluginSource.defaults)
  const show = (pointer: Pointer) => ({
    raw: valueAt(source.tree, pointer),
    fromEnvironment: expanded.environment.has(pointer),
  })
  const isWhole = (pointer: Pointer) => expanded.environment.get(pointer)?.isWhole === true
  const errors = validateAndMend(compileSchema(schema, true), tree, isWhole)
  const checked = await checkPlugins(tree.plugins, pluginSource, { environment: expanded.environment, show })
  const findings = mergeFindings(expanded, [...explain(withoutEchoes(errors), show), ...checked.findings])
  // A rule only reads options without a schema error, and all schema errors are known here.
  const values = tree as unknown as Infer<S>
  findings.push(...(rules?.(values, factsOf(tree, source, expanded), findings) ?? []))

  const problems = findings.map((finding) => locateFinding(source, finding)).sort(byLocation)
  if (problems.some((p) => p.severity === 'error')) throw new ConfigError(problems, text)

  makePathsAbsolute(schema, tree, checked.found, dirname(resolve(file)))
  return {
    values,
    plugins: tree.plugins.map(({ with: options, when }, i) => ({
      plugin: checked.found.get(i)!,
      options,
      ...(when === undefined ? {} : { when }),
    })),
    warnings: problems,
  }
}

function withDefaultPlugins(tree: WithPlugins, defaults: readonly string[] = []): WithPlugins {
  const isListed = (tree.plugins ?? null) !== null
  return isListed ? tree : { ...tree, plugins: defaults.map((use) => ({ use, with: {} })) }
}

/** Combines findings. A missing variable gives no value, so schema errors about that value are left out. */
function mergeFindings({ findings }: Expanded, others: readonly Finding[]): (Finding | ExpansionFinding)[] {
  const isUnset = (pointer: Pointer) => findings.some((finding) => finding.pointer === pointer)
  return [...findings, ...others.filter(({ pointer }) => !isUnset(pointer))]
}

const factsOf = (values: object, source: Source, { environment }: Expanded): DocumentFacts => ({
  isWritten: (pointer) => (valueAt(source.tree, pointer) ?? null) !== null,
  isFromEnvironment: (pointer) => [...environment.keys()].some((key) => isInside(key, pointer)),
  shown: (pointer) => environment.get(pointer)?.raw ?? String(valueAt(values, pointer)),
})

function makePathsAbsolute(
  schema: OptionsSchema,
  values: WithPlugins,
  plugins: ReadonlyMap<number, PluginDeclaration>,
  baseDir: string,
): void {
  const placed = [...eachOption(schema, values, '')]
  for (const [i, plugin] of plugins)
    placed.push(...eachOption(plugin.options, values.plugins[i]!.with, `/plugins/${i}/with`))
  for (const { option, value, pointer } of placed) {
    const isPath = 'format' in option && option.format === 'path'
    if (isPath && typeof value === 'string') setAt(values, pointer, resolve(baseDir, value))
  }
}

/** Adds the line to a finding. If the finding is about a piece of a text, only that piece is marked. */
function locateFinding(source: Source, finding: Finding | ExpansionFinding): ConfigProblem {
  const span = source.spanOf(finding.pointer, finding.part)
  if (span === undefined || !('at' in finding)) return locateSpan(source, { ...finding, span })
  const within = source.text.slice(span.start, span.end).indexOf(finding.at)
  if (within < 0) return locateSpan(source, { ...finding, span })
  const start = span.start + within
  return locateSpan(source, { ...finding, span: { start, end: start + finding.at.length } })
}

/** A problem with its offsets in the text, before its line is known. */
type Unlocated = Pick<Finding, 'pointer' | 'message' | 'hint'> & {
  readonly severity?: Finding['severity']
  readonly span: Span | undefined
}

/** Adds the line to a problem of the file's syntax. */
function locateSpan(source: Source, { span, pointer, message, hint, severity }: Unlocated): ConfigProblem {
  const location = span === undefined ? { line: 0, column: 0 } : source.lineOf(span.start)
  return {
    severity: severity ?? 'error',
    file: source.file,
    ...location,
    length: span === undefined ? 0 : Math.max(1, span.end - span.start),
    path: displayPath(pointer, source.tree),
    message,
    ...(hint === undefined ? {} : { hint }),
  }
}

/** Sorts problems in the order of the file. */
const byLocation = (a: ConfigProblem, b: ConfigProblem): number => a.line - b.line || a.column - b.column
