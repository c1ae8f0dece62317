import {
  type GatewayPhase,
  gatewayPhases,
  type Hook,
  type PostAnswerHook,
  type PostAnswerPhase,
  postAnswerPhases,
  type RouteHooks,
  type RouteInfo,
} from '../plugin/gateway.ts'
import { lineUp } from './lineUp.ts'
import type { NotDisposed, Shape } from './program.ts'
import type { ReadyPlugin } from './readyPlugin.ts'
import { hookAt, lateHookAt, replyCheckOf } from './run.ts'

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

/** What one plugin has for one link. */
export interface Part {
  readonly ready: ReadyPlugin
  readonly hooks: RouteHooks
}

/** The shapes of a generation's programs: a few, however many links there are. */
export class Shapes {
  readonly #byKey = new Map<string, Shape>()
  readonly #plugins: readonly ReadyPlugin[]
  readonly #notDisposed: NotDisposed

  constructor(plugins: readonly ReadyPlugin[], notDisposed: NotDisposed) {
    this.#plugins = plugins
    this.#notDisposed = notDisposed
  }

  /** The one for these parts of a link; free links, and both ways of charging, have shapes of their own. */
  of({ isPaid, settle }: RouteInfo, parts: readonly Part[]): Shape {
    const isSettledFirst = isPaid && settle === 'before'
    let key = isPaid ? settle : 'free'
    for (const { ready, hooks } of parts) key += ` ${this.#plugins.indexOf(ready)}:${phasesOf(hooks)}`
    let shape = this.#byKey.get(key)
    if (shape === undefined) {
      shape = this.#make(isSettledFirst ? settleFirst : gatewayPhases, parts)
      this.#byKey.set(key, shape)
    }
    return shape
  }

  #make(phases: readonly GatewayPhase[], parts: readonly Part[]): Shape {
    const plugins = parts.map(({ ready: { plugin } }) => plugin.name)
    const routed = parts.map(({ ready: { plugin }, hooks: own }, at) => {
      const hooks: { -readonly [P in keyof RouteHooks]: RouteHooks[P] } = {}
      for (const phase of gatewayPhases) if (own[phase] != null) hooks[phase] = hookAt[phase](at)
      for (const phase of postAnswerPhases) if (own[phase] != null) hooks[phase] = lateHookAt[phase](at)
      return { name: plugin.name, slots: plugin.slots, hooks: hooks as RouteHooks }
    })
    const steps = lineUp<GatewayPhase, Hook>(phases, routed)
    const postAnswer = lineUp<PostAnswerPhase, PostAnswerHook>(postAnswerPhases, routed)
    const hooks = steps.map(({ hook }) => hook)
    const check = replyCheckOf(steps)
    return { hooks, check, steps, postAnswer, plugins, notDisposed: this.#notDisposed }
  }
}

/** One bit for each phase that there is a hook of. */
function phasesOf(hooks: RouteHooks): number {
  let bits = 0
  let bit = 1
  for (const phase of gatewayPhases) {
    if (hooks[phase] != null) bits |= bit
    bit <<= 1
  }
  for (const phase of postAnswerPhases) {
    if (hooks[phase] != null) bits |= bit
    bit <<= 1
  }
  return bits
}
