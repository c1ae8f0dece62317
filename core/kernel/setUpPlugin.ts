import { GenerationError } from './generationError.ts'
import { grantPorts } from './grantPorts.ts'
import type { LoadablePlugin, PluginKind } from './load.ts'

/** A plugin that was set up, as far as every host closes it. */
interface Closable {
  close?(): void | Promise<void>
}

/**
 * Sets a plugin up with the ports that it needs, and no others.
 *
 * @throws {GenerationError} naming the plugin: a port that there is none of, or what it said itself
 */
export async function setUpPlugin<I>(
  plugin: LoadablePlugin,
  options: unknown,
  ports: object,
  kind: PluginKind,
): Promise<I> {
  const granted = grantPorts(plugin, ports)
  if ('missing' in granted)
    throw new GenerationError(
      `Plugin ${plugin.name} needs ${granted.missing}, which this ${kind} does not have.`,
    )
  try {
    return (await plugin.setup(options as never, { ports: granted.ports } as never)) as I
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new GenerationError(`Plugin ${plugin.name} refused its set-up: ${reason}`, { cause })
  }
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
