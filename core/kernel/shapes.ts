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
import { hookAt, lateHookAt, methodAt, replyCheckOf } from './run.ts'

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

/** Classes of hooks that are told apart. A plugin that makes one for each link would make as many shapes. */
const MOST_KINDS = 64

/** The shapes of a generation's programs: a few, however many links there are. */
export class Shapes {
  readonly #byKey = new Map<string, Shape>()
  /** By what the hooks of a class have in common: its prototype. */
  readonly #kinds = new Map<object, number>()
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
    for (const { ready, hooks } of parts)
      key += ` ${this.#plugins.indexOf(ready)}:${phasesOf(hooks)}:${this.#kindOf(hooks)}`
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
      const isOfClass = this.#kindOf(own) !== NO_KIND
      for (const phase of gatewayPhases) {
        const hook = own[phase]
        if (hook == null) continue
        hooks[phase] = isOfClass && !Object.hasOwn(own, phase) ? methodAt(hook, at) : hookAt[phase](at)
      }
      for (const phase of postAnswerPhases) {
        const hook = own[phase]
        if (hook == null) continue
        hooks[phase] = isOfClass && !Object.hasOwn(own, phase) ? methodAt(hook, at) : lateHookAt[phase](at)
      }
      return { name: plugin.name, slots: plugin.slots, hooks: hooks as RouteHooks }
    })
    const steps = lineUp<GatewayPhase, Hook>(phases, routed)
    const postAnswer = lineUp<PostAnswerPhase, PostAnswerHook>(postAnswerPhases, routed)
    const hooks = steps.map(({ hook }) => hook)
    const check = replyCheckOf(steps)
    return { hooks, check, steps, postAnswer, plugins, notDisposed: this.#notDisposed }
  }

  /** Which class of hooks these are of. */
  #kindOf(hooks: RouteHooks): number {
    const prototype: object | null = Object.getPrototypeOf(hooks)
    if (prototype === Object.prototype || prototype === null) return NO_KIND
    const known = this.#kinds.get(prototype)
    if (known !== undefined || this.#kinds.size === MOST_KINDS) return known ?? NO_KIND
    this.#kinds.set(prototype, this.#kinds.size + 1)
    return this.#kinds.size
  }
}

/** Of no class, or of one of too many. */
const NO_KIND = 0

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
