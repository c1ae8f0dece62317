import { dirname, resolve } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Infer, OptionsSchema } from '../../plugin/options.ts'
import { ConfigError } from '../configError.ts'
import { eachOption } from '../eachOption.ts'
import { type Expanded, type ExpansionFinding, expand } from '../read/expand.ts'
import type { Environment } from '../read/interpolate.ts'
import { byPlace, locateFinding, locateSpan } from '../read/locate.ts'
import { isInside, type Pointer, setAt, valueAt } from '../read/pointer.ts'
import { readSource, type Source } from '../read/source.ts'
import type { PluginConfig } from '../types.ts'
import { checkPlugins, type PluginDeclaration, type PluginSource } from './checkPlugins.ts'
import { explain, type Finding } from './explain.ts'
import type { ConfigProblem } from './problem.ts'
import { compileSchema, validateAndMend, withoutEchoes } from './validate.ts'

/** A plugin of the list, found, with its options checked: what a host is built from. */
export interface LoadedPlugin<P> {
  readonly plugin: P
  readonly options: PluginConfig['with']
  readonly when?: PluginConfig['when']
}

/** What a rule between options may ask beside the values. */
export interface DocumentFacts {
  /** True when the file itself has something there: defaults can't be a mistake. */
  isWritten(pointer: Pointer): boolean
  /** True when the value, or a part of it, came from a variable. */
  isFromEnvironment(pointer: Pointer): boolean
  /** The value for a message: as the file has it, `${NAME}` where it came from the environment. */
  shown(pointer: Pointer): string
}

export interface DocumentOptions<S extends OptionsSchema, P extends PluginDeclaration> {
  /** Names the text in messages, and anchors its relative paths. */
  readonly file: string
  /** Where `${NAME}` is looked up; usually `process.env`. */
  readonly env: Environment
  /** Everything the document may say; its list `plugins` has entries `{use, with}`. */
  readonly schema: S
  readonly plugins: PluginSource<P>
  /** What the schema can't express; told what was found wrong so far. */
  readonly rules?: (values: Infer<S>, facts: DocumentFacts, found: readonly Finding[]) => readonly Finding[]
}

export interface CheckedDocument<S extends OptionsSchema, P> {
  /** Every default filled in, every path absolute, every `${NAME}` replaced. */
  readonly values: Infer<S>
  readonly plugins: readonly LoadedPlugin<P>[]
  /** Allowed, and probably not what was meant: to be printed at the start. */
  readonly warnings: readonly ConfigProblem[]
}

/** The part of any host's configuration that is read here: its plugins. */
interface WithPlugins {
  plugins: PluginConfig[]
}

/**
 * Reads the text of a configuration (YAML, or JSON when the file's name ends in `.json`), of the gateway or of the vault:
 * replaces `${NAME}`, checks it and its plugins' options, fills in the defaults, and makes relative paths absolute from
 * the folder of the file.
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

  // Calls go on while a gateway reads its configuration again: here, and before each plugin.
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
  // What does not fit the schema is found by now, and rules look at nothing that was.
  const values = tree as unknown as Infer<S>
  findings.push(...(rules?.(values, factsOf(tree, source, expanded), findings) ?? []))

  const problems = findings.map((finding) => locateFinding(source, finding)).sort(byPlace)
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

/** A value whose variable is missing has no value yet: what the schema says about it is noise. */
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
