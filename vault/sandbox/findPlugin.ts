import { resolve } from 'node:path'
import { eachOption } from '../../core/config/eachOption.ts'
import type { OptionsSchema } from '../../core/plugin/options.ts'
import type { AnyVaultPlugin, VaultPlugin } from '../../core/plugin/vault.ts'
import { PluginProcess } from './pluginProcess.ts'
import type { PluginPlace } from './readable.ts'
import { defaultPluginLimits } from './sandboxedPlugin.ts'
import type { PluginDescription } from './wire.ts'

/** A plugin's description as plain data, with the location of its code. */
export interface FoundPlugin {
  readonly name: string
  readonly options: OptionsSchema
  readonly needs: readonly string[]
  readonly slots?: VaultPlugin['slots']
  readonly where: PluginPlace
}

const nameForm = /^[A-Za-z0-9@][A-Za-z0-9@/._-]{0,99}$/
/** Names that the log uses for other deciders. A plugin must not be mistaken for one of them. */
const takenNames: readonly string[] = ['owner', 'agent', 'rule', 'vault']

/** A built-in plugin. The vault's own code describes it, but it runs like every other plugin. */
export const builtInPlugin = ({ name, options, needs, slots }: AnyVaultPlugin): FoundPlugin => ({
  name,
  options,
  needs,
  ...(slots && { slots }),
  where: { use: name, isBuiltIn: true, baseDir: resolve('/'), home: resolve('/'), names: [] },
})

/**
 * Finds the plugin that `use` names. It is built in, a file relative to the configuration, or an npm package. A plugin that is
 * not built in is loaded in a process of its own to get its description, so that no plugin code runs in this process.
 *
 * @param home the folder of the vault, which plugins cannot access
 */
export function createPluginFinder(
  builtIn: readonly AnyVaultPlugin[],
  baseDir: string,
  home: string,
): { load(use: string): Promise<FoundPlugin> } {
  const names = builtIn.map(({ name }) => name)
  return {
    async load(use) {
      const own = builtIn.find(({ name }) => name === use)
      if (own !== undefined) return builtInPlugin(own)
      const where = { use, isBuiltIn: false, baseDir: resolve(baseDir), home: resolve(home), names }
      const life = new PluginProcess(where, [], { onMessage() {}, onEnd() {} })
      try {
        const found = described(await life.load(where, defaultPluginLimits.loadMs))
        if (names.includes(found.name)) throw new Error(`has the name ${found.name} of a built-in plugin.`)
        return { ...found, where }
      } catch (error) {
        const { message } = error as Error
        // The plugin's own message may already name it.
        throw message.includes(JSON.stringify(use))
          ? error
          : new Error(`Plugin ${JSON.stringify(use)} ${message}`)
      } finally {
        life.kill('was inspected')
        await life.gone
      }
    },
  }
}

/**
 * The files in the options that the plugin may read. Only files that the owner wrote into the configuration count, because the
 * plugin itself could name any file as a default.
 */
export function filesOf({ options: schema, where }: FoundPlugin, options: unknown): string[] {
  const usual = new Set([...defaultTexts(schema)].map((text) => resolve(where.baseDir, text)))
  return [...eachOption(schema, options, '')].flatMap(({ option, value }) => {
    const { format } = option as { format?: unknown }
    return format === 'path' && typeof value === 'string' && !usual.has(value) ? [value] : []
  })
}

/** Yields every string in any default of a schema, at any depth. */
function* defaultTexts(schema: unknown, isDefault = false): Iterable<string> {
  if (typeof schema === 'string' && isDefault) yield schema
  if (typeof schema !== 'object' || schema === null) return
  for (const [name, member] of Object.entries(schema))
    yield* defaultTexts(member, isDefault || name === 'default')
}

/** @throws {Error} for an invalid description */
function described(description: PluginDescription): Omit<FoundPlugin, 'where'> {
  const { name, options, needs, slots } = (description ?? {}) as Partial<
    Record<keyof PluginDescription, unknown>
  >
  if (typeof name !== 'string' || !nameForm.test(name) || takenNames.includes(name))
    throw new Error('has no name of letters, digits, `-`, `.`, `_`, `@` and `/`.')
  if (typeof options !== 'object' || options === null) throw new Error('has no options schema.')
  if (!Array.isArray(needs) || !needs.every((need) => typeof need === 'string'))
    throw new Error('has no list of needs.')
  return {
    name,
    options: options as OptionsSchema,
    needs,
    ...(typeof slots === 'object' && slots !== null && { slots: slots as NonNullable<VaultPlugin['slots']> }),
  }
}
