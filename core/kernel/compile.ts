import { isPaid, type ServedLink } from '../domain/link.ts'
import {
  type AnyGatewayPlugin,
  type GatewayPhase,
  gatewayPhases,
  type Hook,
  type PluginInstance,
  type PostAnswerHook,
  type PostAnswerPhase,
  postAnswerPhases,
  type RouteHooks,
  type RouteInfo,
} from '../plugin/gateway.ts'
import { hooksOf } from './declarations.ts'
import { GenerationError } from './generationError.ts'
import { lineUp, type Routed } from './lineUp.ts'
import type { Program } from './program.ts'
import { replyCheckOf } from './run.ts'
import type { SlotGuard } from './slotGuard.ts'
import type { When } from './when.ts'

/** One entry of the configuration's plugin list, set up. */
export interface ReadyPlugin {
  readonly plugin: AnyGatewayPlugin
  readonly instance: PluginInstance
  /** Whether the entry's `when` lets it run for a link. */
  readonly applies: (info: RouteInfo) => boolean
  /** As the entry has them, for those who ask what runs and why. */
  readonly options?: unknown
  readonly when?: When | undefined
}

const settleFirst: readonly GatewayPhase[] = [
  'guard',
  'pay',
  'claim',
  'verify',
  'settle',
  'record',
  'forward',
  'respond',
]

/**
 * Builds the program of one link version: asks each plugin once for its hooks and lines them up by phase, inside a phase
 * in the order of the configuration. A plugin with nothing to do for the link is not in it.
 *
 * @param onLateFailure told of a `dispose` that answered a promise, which rejected
 * @param guard watches what hooks do with slots; for tests
 * @throws {GenerationError} naming the plugin, for what are no hooks, and for what it threw itself
 */
export function compile(
  link: ServedLink,
  plugins: readonly ReadyPlugin[],
  onLateFailure: (error: Error) => void,
  guard?: SlotGuard,
): Program {
  const info: RouteInfo = { link, isPaid: isPaid(link), settle: link.settle }
  const routed: Routed<RouteHooks>[] = []
  const dispose = () => {
    const failures: unknown[] = []
    for (const { name, hooks } of routed.splice(0)) {
      try {
        const late: unknown = hooks.dispose?.()
        if (late instanceof Promise) late.catch((cause: unknown) => onLateFailure(notDisposed(name, cause)))
      } catch (cause) {
        failures.push(notDisposed(name, cause))
      }
    }
    if (failures.length > 0) throw failures[0]
  }
  try {
    for (const { plugin, instance, applies } of plugins) {
      if (!applies(info)) continue
      const { name, slots } = plugin
      const hooks = hooksOf(name, routeOf(name, instance, info))
      if (hooks !== undefined) routed.push({ name, slots, hooks: guard?.hooks(plugin, hooks) ?? hooks })
    }
  } catch (error) {
    dispose()
    throw error
  }
  const phases = info.isPaid && info.settle === 'before' ? settleFirst : gatewayPhases
  const steps = lineUp<GatewayPhase, Hook>(phases, routed)
  const postAnswer = lineUp<PostAnswerPhase, PostAnswerHook>(postAnswerPhases, routed)
  return { hooks: steps.map((s) => s.hook), check: replyCheckOf(steps), steps, postAnswer, dispose }
}

const notDisposed = (name: string, cause: unknown) =>
  new Error(`Plugin ${name} failed to dispose of a link: ${String(cause)}`, { cause })

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
