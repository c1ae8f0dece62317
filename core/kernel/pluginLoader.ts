import { statSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { isAbsolute, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { OptionsSchema } from '../plugin/options.ts'

/** A plugin could not be loaded. The message names the plugin and its location, and says what was expected there. */
export class PluginLoadError extends Error {
  override readonly name = 'PluginLoadError'
}

/** The properties that gateway and vault plugins have in common. */
export interface LoadablePlugin {
  readonly name: string
  readonly api: 1
  readonly options: OptionsSchema
  readonly needs: readonly string[]
  setup(options: never, env: never): unknown
}

/** The program that runs the plugin, for messages. */
export type PluginKind = 'gateway' | 'vault'

export interface PluginLoader<P extends LoadablePlugin> {
  /**
   * Loads the plugin that `use` names, which is a built-in name, `./file.js` relative to the configuration, or an npm package. A
   * local file that has changed is imported again, so that a reload uses the changed file.
   *
   * @throws {PluginLoadError}
   */
  load(use: string): Promise<P>
}

/** @param baseDir the folder of the configuration file, from which local files and packages are resolved. */
export function createPluginLoader<P extends LoadablePlugin>(
  builtIn: readonly P[],
  baseDir: string,
  kind: PluginKind = 'gateway',
): PluginLoader<P> {
  const byName = new Map(builtIn.map((p) => [p.name, p]))
  return {
    async load(use) {
      const found = byName.get(use)
      if (found) return found
      return asPlugin<P>(use, await importModule(use, baseDir, [...byName.keys()]), kind)
    },
  }
}

async function importModule(use: string, baseDir: string, builtIn: string[]): Promise<unknown> {
  try {
    return isFile(use) ? await import(urlOfFile(use, baseDir)) : await importPackage(use, baseDir)
  } catch (cause) {
    const reason = asSentence(cause instanceof Error ? cause.message.split('\n')[0]! : String(cause))
    throw new PluginLoadError(
      `Cannot load plugin ${JSON.stringify(use)}: ${reason} Expected a built-in name (${builtIn.join(', ')}), ` +
        `an installed package, or a path such as ./my-plugin.js beside the configuration file.`,
      { cause },
    )
  }
}

const isFile = (use: string) => use.startsWith('./') || use.startsWith('../') || isAbsolute(use)

function urlOfFile(use: string, baseDir: string): string {
  const file = resolve(baseDir, use)
  return `${pathToFileURL(file).href}?v=${statSync(file).mtimeMs}`
}

/**
 * Imports a package as a module in `baseDir` would, from the node_modules of that folder, and by the package's `import` condition.
 */
async function importPackage(use: string, baseDir: string): Promise<unknown> {
  const parentURL = pathToFileURL(resolve(baseDir, 'tollgate.yaml')).href
  const asked = `tollgate-plugin:${use}`
  const hooks = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === asked ? next(use, { ...context, parentURL }) : next(specifier, context),
  })
  try {
    return await import(asked)
  } finally {
    hooks.deregister()
  }
}

function asPlugin<P extends LoadablePlugin>(use: string, module: unknown, kind: PluginKind): P {
  const plugin = defaultOf(module) as Partial<LoadablePlugin> | undefined
  const problem = shapeProblem(plugin, kind)
  // The setup of the plugin checks the rest of the contract.
  if (problem === undefined) return plugin as P
  throw new PluginLoadError(
    `${JSON.stringify(use)} is not a ${kind} plugin: ${problem}. Export ${kind}Plugin({…}) as default.`,
  )
}

/** The module's default export. If a CommonJS module was compiled from an ES module, the export is one level deeper. */
function defaultOf(module: unknown): unknown {
  const found = (module as { default?: unknown }).default
  const isNested = typeof found === 'object' && found !== null && 'default' in found && !('setup' in found)
  return isNested ? found.default : found
}

function shapeProblem(plugin: Partial<LoadablePlugin> | undefined, kind: PluginKind): string | undefined {
  if (typeof plugin !== 'object' || plugin === null) return 'it has no default export that is an object'
  if (typeof plugin.name !== 'string' || plugin.name === '') return 'its name is missing'
  if (plugin.api !== 1)
    return `it was written for version ${String(plugin.api)} of the plugin contract, but this ${kind} has version 1`
  if (typeof plugin.options !== 'object' || plugin.options === null) return 'its options schema is missing'
  if (!Array.isArray(plugin.needs)) return 'its list of needs is missing'
  if (typeof plugin.setup !== 'function') return 'its setup function is missing'
}

const asSentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)
