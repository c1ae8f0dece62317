import type { AnyGatewayPlugin, PluginInstance } from '../plugin/gateway.ts'
import type { GatewayPorts } from '../plugin/ports.ts'
import type { OwnSlot, OwnSlotName } from '../plugin/slots.ts'
import { GenerationError } from './generationError.ts'
import { kindOf } from './run.ts'

/** A plugin that was set up, as far as every host closes it. */
interface Closable {
  close?(): void | Promise<void>
}

/**
 * Sets a gateway plugin up with the ports that it needs and the slots that it declared, and no others.
 *
 * @throws {GenerationError} naming the plugin: a port that there is none of, what it said itself, or an answer that is no
 *   instance
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
    throw new GenerationError(`Plugin ${name} refused its set-up: ${reason}`, { cause })
  }
  if (typeof instance?.route === 'function') return instance as PluginInstance
  const got = instance === null || typeof instance !== 'object' ? kindOf(instance) : 'an object without it'
  throw new GenerationError(`Plugin ${name}: setup() should answer an object with route(), got ${got}.`)
}

/** Closes every plugin, whatever the others do. @throws the first failure, after the last one was closed. */
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
