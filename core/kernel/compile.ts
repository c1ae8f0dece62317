import { isPaid, type ServedLink } from '../domain/link.ts'
import {
  type AnyGatewayPlugin,
  type GatewayPhase,
  gatewayPhases,
  type Hook,
  type PluginInstance,
  type RouteHooks,
  type RouteInfo,
} from '../plugin/gateway.ts'
import { lineUp } from './lineUp.ts'
import type { Program, Step } from './program.ts'

/** One entry of the configuration's plugin list, set up. */
export interface ReadyPlugin {
  readonly plugin: AnyGatewayPlugin
  readonly instance: PluginInstance
  /** Whether the entry's `when` lets it run for a link. */
  readonly applies: (info: RouteInfo) => boolean
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
 */
export function compile(link: ServedLink, plugins: readonly ReadyPlugin[]): Program {
  const info: RouteInfo = { link, isPaid: isPaid(link), settle: link.settle }
  const routed: { name: string; hooks: RouteHooks }[] = []
  try {
    for (const { plugin, instance, applies } of plugins) {
      if (!applies(info)) continue
      const hooks = instance.route(info)
      if (hooks !== undefined) routed.push({ name: plugin.name, hooks })
    }
  } catch (error) {
    for (const { hooks } of routed) hooks.dispose?.()
    throw error
  }
  const phases = info.isPaid && info.settle === 'before' ? settleFirst : gatewayPhases
  const steps: Step[] = lineUp<GatewayPhase, Hook>(phases, routed)
  const disposers = routed.flatMap(({ hooks }) => (hooks.dispose === undefined ? [] : [hooks.dispose]))
  const logging = routed.filter(({ hooks }) => hooks.log !== undefined)
  return {
    hooks: steps.map((s) => s.hook),
    logs: logging.map(({ hooks }) => hooks.log!),
    steps,
    logPlugins: logging.map(({ name }) => name),
    dispose() {
      for (const dispose of disposers.splice(0)) dispose()
    },
  }
}
