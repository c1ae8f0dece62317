import { setImmediate as nextTurn } from 'node:timers/promises'
import type { OptionsSchema } from '../../plugin/options.ts'
import type { Expanded } from '../read/interpolate.ts'
import { valueAt } from '../read/pointer.ts'
import { explain, type Finding, type Show } from './explain.ts'
import { nearMiss } from './nearMiss.ts'
import { compileSchema, validateAndMend, withoutEchoes } from './validate.ts'

/** The part of a plugin definition that the loader needs. */
export interface PluginDeclaration {
  readonly name: string
  readonly options: OptionsSchema
}

/** The source of plugins. The kernel's loader has this shape. */
export interface PluginSource<P extends PluginDeclaration = PluginDeclaration> {
  /** Finds the plugin that `use:` names. If it throws, the message becomes the problem at that line. */
  load(use: string): P | Promise<P>
  /** The names of the built-in plugins. They are suggested if a name is misspelled, and their schemas are assumed to be valid. */
  readonly names?: readonly string[]
  /** The plugins that run, in this order, if a file has no `plugins` list. */
  readonly defaults?: readonly string[]
}

export interface CheckedPlugins<P> {
  /** The plugins by position in the list, without plugins that were not found. */
  readonly found: ReadonlyMap<number, P>
  readonly findings: readonly Finding[]
}

/** Loads every plugin of the list, checks its options against its own schema, and fills in the defaults in place. */
export async function checkPlugins<P extends PluginDeclaration>(
  entries: unknown,
  source: PluginSource<P>,
  { environment, show }: { environment: Expanded['environment']; show: Show },
): Promise<CheckedPlugins<P>> {
  const found = new Map<number, P>()
  const findings: Finding[] = []
  for (const [i, entry] of (Array.isArray(entries) ? entries : []).entries()) {
    const at = `/plugins/${i}`
    const use = valueAt(entry, '/use')
    if (typeof use !== 'string' || use === '') continue
    // While a gateway reloads its configuration, calls run between two plugins.
    await nextTurn()
    try {
      const plugin = await source.load(use)
      found.set(i, plugin)
      const isOurs = source.names?.includes(use)
      findings.push(...checkOptions(plugin, isOurs, valueAt(entry, '/with'), `${at}/with`))
    } catch (error) {
      findings.push(notLoaded(error, use, `${at}/use`))
    }
  }
  return { found, findings }

  function checkOptions(plugin: P, isOurs: boolean | undefined, options: unknown, at: string): Finding[] {
    // The check against the main schema already reports a value that is not an object.
    if (typeof options !== 'object' || options === null || Array.isArray(options)) return []
    const validate = compileSchema(plugin.options, isOurs)
    const isWhole = (pointer: string) => environment.get(at + pointer)?.isWhole === true
    const errors = validateAndMend(validate, options, isWhole)
    return explain(
      withoutEchoes(errors).map((error) => ({ ...error, instancePath: at + error.instancePath })),
      show,
    )
  }

  function notLoaded(error: unknown, use: string, pointer: string): Finding {
    const reason = error instanceof Error ? error.message : String(error)
    const raw = environment.get(pointer)?.raw
    const message = raw === undefined ? reason : reason.replaceAll(use, raw)
    const meant = raw === undefined ? nearMiss(use, source.names ?? []) : undefined
    return {
      severity: 'error',
      pointer,
      part: 'value',
      message,
      ...(meant ? { hint: `Did you mean ${meant}?` } : {}),
    }
  }
}
