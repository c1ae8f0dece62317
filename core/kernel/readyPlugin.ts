import type { AnyGatewayPlugin, PluginInstance, RouteInfo } from '../plugin/gateway.ts'
import type { GatewayPorts } from '../plugin/ports.ts'
import type { OwnSlot, OwnSlotName } from '../plugin/slots.ts'
import { kindOf } from './run.ts'

/** A configuration cannot be used, because the order of its plugins cannot work or because a plugin failed its setup. */
export class GenerationError extends Error {
  override readonly name = 'GenerationError'
}

/** One entry of the configuration's plugin list, after its setup. */
export interface ReadyPlugin {
  readonly plugin: AnyGatewayPlugin
  readonly instance: PluginInstance
  /** Whether the entry's `when` includes a link. */
  readonly applies: (info: RouteInfo) => boolean
  /** The options of the entry, for views that show the pipeline. */
  readonly options?: unknown
  readonly when?: When | undefined
}

/** The links for which an entry of the plugin list runs. All links if it is absent. */
export interface When {
  /** Patterns for `<seller>/<slug>`, in which `*` matches any number of characters. */
  readonly links?: readonly string[] | undefined
  readonly paid?: boolean | undefined
}

/** Turns `when` into a test that the kernel runs once per link version. */
export function compileWhen(when: When | undefined): (info: RouteInfo) => boolean {
  if (when === undefined) return () => true
  const patterns = when.links?.map(toRegExp)
  return ({ link, isPaid }) => {
    if (when.paid !== undefined && when.paid !== isPaid) return false
    return patterns === undefined || patterns.some((p) => p.test(`${link.username}/${link.slug}`))
  }
}

function toRegExp(pattern: string): RegExp {
  const escaped = pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')
  return new RegExp(`^${escaped}$`)
}

/** The part of a gateway or vault plugin instance that closes it. */
interface Closable {
  close?(): void | Promise<void>
}

/**
 * Sets up a gateway plugin, with access to the ports that it needs and the slots that it declared.
 *
 * @throws {GenerationError} with the plugin's name, for a port that does not exist, an error of the plugin, or a result that is not
 *   an instance
 */
export async function setUpPlugin(
  plugin: AnyGatewayPlugin,
  options: unknown,
  ports: GatewayPorts,
  slot: (name: OwnSlotName) => OwnSlot<unknown>,
): Promise<PluginInstance> {
  const { name } = plugin
  const granted: Record<string, unknown> = {}
  for (const need of plugin.needs) {
    if (!Object.hasOwn(ports, need))
      throw new GenerationError(`Plugin ${name} needs ${need}, which this gateway does not have.`)
    granted[need] = ports[need]
  }
  let instance: Partial<PluginInstance> | null
  try {
    instance = await plugin.setup(options as never, { ports: Object.freeze(granted), slot } as never)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new GenerationError(`Plugin ${name} failed its setup: ${reason}`, { cause })
  }
  if (typeof instance?.route === 'function') return instance as PluginInstance
  const got = instance === null || typeof instance !== 'object' ? kindOf(instance) : 'an object without it'
  throw new GenerationError(`Plugin ${name}: expected setup() to return an object with route(), got ${got}.`)
}

/**
 * Closes every plugin, even if another plugin fails to close.
 *
 * @throws the first failure, after all plugins have been closed
 */
export async function closePlugins(instances: readonly Closable[]): Promise<void> {
  const failures: unknown[] = []
  for (const instance of instances) {
    try {
      await instance.close?.()
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}
