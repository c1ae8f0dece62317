import { isPaid, type ServedLink } from '../domain/link.ts'
import type { PluginInstance, RouteInfo } from '../plugin/gateway.ts'
import { hooksOf } from './declarations.ts'
import { GenerationError } from './generationError.ts'
import { Program } from './program.ts'
import type { ReadyPlugin } from './readyPlugin.ts'
import type { Part, Shapes } from './shapes.ts'
import type { SlotGuard } from './slotGuard.ts'

/**
 * Builds the program of one link version: asks each plugin once for its hooks and lines them up by phase, inside a phase
 * in the order of the configuration. A plugin with nothing to do for the link is not in it.
 *
 * @param shapes of these plugins
 * @param guard watches what hooks do with slots; for tests
 * @throws {GenerationError} naming the plugin, for what are no hooks, and for what it threw itself
 */
export function compile(
  link: ServedLink,
  plugins: readonly ReadyPlugin[],
  shapes: Shapes,
  guard?: SlotGuard,
): Program {
  const info: RouteInfo = { link, isPaid: isPaid(link), settle: link.settle }
  const parts: Part[] = []
  const programOf = () =>
    new Program(
      link,
      shapes.of(info, parts),
      parts.map(({ hooks }) => hooks),
    )
  try {
    for (const ready of plugins) {
      const { plugin, instance, applies } = ready
      if (!applies(info)) continue
      const hooks = hooksOf(plugin.name, routeOf(plugin.name, instance, info))
      if (hooks !== undefined) parts.push({ ready, hooks: guard?.hooks(plugin, hooks) ?? hooks })
    }
  } catch (error) {
    programOf().dispose()
    throw error
  }
  return programOf()
}

function routeOf(name: string, instance: PluginInstance, info: RouteInfo): unknown {
  try {
    return instance.route(info)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new GenerationError(`Plugin ${name} has no hooks for link ${addressOf(info.link)}: ${reason}`, {
      cause,
    })
  }
}

const addressOf = ({ username, slug }: ServedLink): string => `${username}/${slug}`
