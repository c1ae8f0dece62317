import { isPaid, type ServedLink } from '../domain/link.ts'
import {
  type AfterResponseHook,
  type AfterResponsePhase,
  afterResponsePhases,
  type GatewayPhase,
  gatewayPhases,
  type Hook,
  type PluginInstance,
  type RouteHooks,
  type RouteInfo,
} from '../plugin/gateway.ts'
import { hooksOf } from './declarations.ts'
import { lineUp } from './order.ts'
import { type NotDisposed, Pipeline, type Shape } from './pipeline.ts'
import { GenerationError, type ReadyPlugin } from './readyPlugin.ts'
import { hookAt, lateHookAt, replyCheckOf } from './run.ts'
import type { SlotGuard } from './slotGuard.ts'

/**
 * Builds the pipeline of one link version. It calls each plugin's `route` once and orders the hooks by phase. Within a phase, the
 * hooks have the order of the configuration. A plugin without hooks for the link is left out.
 *
 * @param shapes the shapes of the pipelines of these plugins
 * @param guard checks how hooks use slots. Only tests pass it
 * @param isCharged false for calls that a wallet's signature admits to a paid link
 * @throws {GenerationError} with the plugin's name, for invalid hooks and for errors that the plugin threw
 */
export function compile(
  link: ServedLink,
  plugins: readonly ReadyPlugin[],
  shapes: Shapes,
  guard?: SlotGuard,
  isCharged = isPaid(link),
): Pipeline {
  const info: RouteInfo = { link, isPaid: isCharged, settle: link.settle }
  const found: PluginHooks[] = []
  const pipelineOf = () =>
    new Pipeline(
      link,
      shapes.of(info, found),
      found.map(({ hooks }) => hooks),
      isCharged,
    )
  try {
    for (const ready of plugins) {
      const { plugin, instance, applies } = ready
      if (!applies(info)) continue
      const hooks = hooksOf(plugin.name, routeOf(plugin.name, instance, info))
      if (hooks !== undefined) found.push({ ready, hooks: guard?.hooks(plugin, hooks) ?? hooks })
    }
  } catch (error) {
    pipelineOf().dispose()
    throw error
  }
  return pipelineOf()
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

/** One plugin's hooks for one link. */
interface PluginHooks {
  readonly ready: ReadyPlugin
  readonly hooks: RouteHooks
}

/** The shapes of a generation's pipelines. There are only a few, even if there are many links. */
export class Shapes {
  readonly #byKey = new Map<string, Shape>()
  readonly #plugins: readonly ReadyPlugin[]
  readonly #notDisposed: NotDisposed

  constructor(plugins: readonly ReadyPlugin[], notDisposed: NotDisposed) {
    this.#plugins = plugins
    this.#notDisposed = notDisposed
  }

  /**
   * The shape for these hooks of a link. Free links, paid links and links with access have different shapes, and the time of the
   * charge makes a difference too.
   */
  of({ isPaid, settle, link: { access } }: RouteInfo, found: readonly PluginHooks[]): Shape {
    const isSettledFirst = isPaid && settle === 'before'
    let key: string = isPaid ? settle : access === null ? 'free' : 'signed-in'
    for (const { ready, hooks } of found) key += ` ${this.#plugins.indexOf(ready)}:${phasesOf(hooks)}`
    let shape = this.#byKey.get(key)
    if (shape === undefined) {
      shape = this.#make(isSettledFirst ? settleFirst : gatewayPhases, found)
      this.#byKey.set(key, shape)
    }
    return shape
  }

  #make(phases: readonly GatewayPhase[], found: readonly PluginHooks[]): Shape {
    const plugins = found.map(({ ready: { plugin } }) => plugin.name)
    const routed = found.map(({ ready: { plugin }, hooks: own }, at) => {
      const hooks: { -readonly [P in keyof RouteHooks]: RouteHooks[P] } = {}
      for (const phase of gatewayPhases) if (own[phase] != null) hooks[phase] = hookAt[phase](at)
      for (const phase of afterResponsePhases) if (own[phase] != null) hooks[phase] = lateHookAt[phase](at)
      return { name: plugin.name, slots: plugin.slots, hooks: hooks as RouteHooks }
    })
    const steps = lineUp<GatewayPhase, Hook>(phases, routed)
    const afterResponse = lineUp<AfterResponsePhase, AfterResponseHook>(afterResponsePhases, routed)
    const hooks = steps.map(({ hook }) => hook)
    const check = replyCheckOf(steps)
    return { hooks, check, steps, afterResponse, plugins, notDisposed: this.#notDisposed }
  }
}

/** A number with one bit for each phase that has a hook. */
function phasesOf(hooks: RouteHooks): number {
  let bits = 0
  let bit = 1
  for (const phase of gatewayPhases) {
    if (hooks[phase] != null) bits |= bit
    bit <<= 1
  }
  for (const phase of afterResponsePhases) {
    if (hooks[phase] != null) bits |= bit
    bit <<= 1
  }
  return bits
}
