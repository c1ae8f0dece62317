import { checkDocument, type LoadedPlugin } from './check/checkDocument.ts'
import type { PluginDeclaration, PluginSource } from './check/checkPlugins.ts'
import type { ConfigProblem } from './check/problem.ts'
import type { Environment } from './read/interpolate.ts'
import { readConfigText } from './read/readConfigText.ts'
import { applyRules } from './rules.ts'
import { configSchema } from './schema.ts'
import type { Config } from './types.ts'

export type { LoadedPlugin } from './check/checkDocument.ts'

export interface LoadOptions<P extends PluginDeclaration> {
  /** Where `${NAME}` is looked up; usually `process.env`. */
  readonly env: Environment
  readonly plugins: PluginSource<P>
}

export interface LoadedConfig<P> {
  /** The file as it was read. */
  readonly text: string
  readonly config: Config
  readonly plugins: readonly LoadedPlugin<P>[]
  /** Allowed, and probably not what was meant: to be printed at the start. */
  readonly warnings: readonly ConfigProblem[]
}

/**
 * Reads a configuration file of the gateway (YAML, or JSON when it ends in `.json`), replaces `${NAME}`, checks it and its
 * plugins' options, fills in the defaults, and makes relative paths absolute from the folder of the file.
 *
 * @throws {ConfigError} with every problem at once: the file can't be read, a variable is unset, an option is unknown …
 *
 * @example
 * const { config, plugins, warnings } = await loadConfig('tollgate.yaml', { env: process.env, plugins: loader })
 */
export async function loadConfig<P extends PluginDeclaration>(
  file: string,
  options: LoadOptions<P>,
): Promise<LoadedConfig<P>> {
  return parseConfig(await readConfigText(file), { ...options, file })
}

/** {@link loadConfig} for a text that is there already; `file` names it in messages and anchors its relative paths. */
export async function parseConfig<P extends PluginDeclaration>(
  text: string,
  options: LoadOptions<P> & { readonly file: string },
): Promise<LoadedConfig<P>> {
  const { values, plugins, warnings } = await checkDocument(text, {
    ...options,
    schema: configSchema,
    rules: (config, facts, found) => applyRules({ config, ...facts }, found),
  })
  const config: Config = { ...values, publicUrl: values.publicUrl.replace(/\/+$/, '') }
  return { text, config, plugins, warnings }
}
