import { setImmediate as nextTurn } from 'node:timers/promises'
import type { OptionsSchema } from '../../plugin/options.ts'
import type { Expanded } from '../read/expand.ts'
import { valueAt } from '../read/pointer.ts'
import { explain, type Finding, type Show } from './explain.ts'
import { nearMiss } from './nearMiss.ts'
import { compileSchema, validateAndMend, withoutEchoes } from './validate.ts'

/** What the loader needs of a plugin: its options. A plugin definition has this shape. */
export interface PluginDeclaration {
  readonly name: string
  readonly options: OptionsSchema
}

/** Where plugins come from; the kernel's loader has this shape. */
export interface PluginSource<P extends PluginDeclaration = PluginDeclaration> {
  /** Finds what `use:` names. Its error's message becomes the problem at that line. */
  load(use: string): P | Promise<P>
  /** Those that are built in: suggested for a misspelt one, and their schemas taken for valid. */
  readonly names?: readonly string[]
  /** What a file without a `plugins` list runs, in this order. */
  readonly defaults?: readonly string[]
}

export interface CheckedPlugins<P> {
  /** By position in the list; a plugin that was not found is missing. */
  readonly found: ReadonlyMap<number, P>
  readonly findings: readonly Finding[]
}

/** Loads every plugin of the list, and checks its options against its own schema, filling in defaults in place. */
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
    // Calls go on while a gateway reads its configuration again.
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
    // The main schema reports what is not an object.
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
