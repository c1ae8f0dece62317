import { handled, type Reply } from '../http/replies.ts'
import type { Exchange } from '../plugin/exchange.ts'
import type {
  AfterResponseHook,
  AfterResponsePhase,
  GatewayPhase,
  Hook,
  RouteHooks,
} from '../plugin/gateway.ts'

/**
 * A hook of a gateway or vault plugin, as the runner calls it. If it returns undefined, the pipeline continues. Any other result
 * ends the pipeline.
 */
export type HookOf<X, A = Reply> = (x: X) => A | undefined | void | Promise<A | undefined | void>

/** The result if every hook has returned undefined. The call then has a response only if a hook has set or sent one. */
export const passed: Reply = Object.freeze({ status: 0, headers: [], body: null })

/** Checks a hook's result, once per call. @param at index of the hook in the pipeline */
export type Check<A> = (response: A, at: number) => A | Reply

/** Gets notice of calls that wait for a promise of a hook. */
export interface Watch<X> {
  /** @param at index of the hook in the pipeline */
  waits(x: X, at: number): void
  /** False if the call was ended while it waited. The runner then ignores the hook's result and runs no further hook. */
  mayGoOn(x: X): boolean
}

/**
 * Runs one call through its pipeline's hooks. A loop allocates nothing, unlike nested functions. It awaits a hook's result only if
 * that is a promise (bench/steps.ts: about 6 ns a hook, against 75 for `await`).
 *
 * @returns the first result of a hook, or {@link passed}
 */
export function run<X, A = Reply>(
  hooks: readonly HookOf<X, A>[],
  x: X,
  check?: Check<A>,
  watch?: Watch<X>,
  from = 0,
): A | Reply | Promise<A | Reply> {
  for (let i = from; i < hooks.length; i++) {
    const outcome = hooks[i]!(x)
    // A plugin written in JavaScript may return null instead of undefined.
    if (outcome === undefined || outcome === null) continue
    if (outcome instanceof Promise || isThenable(outcome)) {
      watch?.waits(x, i)
      return Promise.resolve(outcome).then((late) => {
        if (watch?.mayGoOn(x) === false) return passed
        if (late === undefined || late === null) return run(hooks, x, check, watch, i + 1)
        return check === undefined ? late : check(late, i)
      })
    }
    return check === undefined ? outcome : check(outcome, i)
  }
  return passed
}

/** Some libraries return thenables instead of promises, such as a query that runs only when it is awaited. */
const isThenable = <T>(value: T | PromiseLike<T>): value is PromiseLike<T> =>
  typeof (value as { then?: unknown }).then === 'function'

/**
 * Makes the check that a hook's result is a reply. Its errors name the plugin.
 *
 * @returns a check that throws an `Error`, for which the link's caller gets `internal_error`
 */
export function replyCheckOf(
  steps: readonly { readonly plugin: string; readonly phase: string }[],
): Check<Reply> {
  return (response, at) => {
    const problem = replyProblem(response)
    if (problem === undefined) return response
    // A plugin that bundles its own copy of the contract returns that copy's `handled`.
    if (response.status === 0 && response.body === null) return handled
    const { plugin, phase } = steps[at]!
    throw new Error(
      `Plugin ${plugin} returned ${problem} in phase ${phase}. Expected nothing, to go on, or {status, headers: [name, value, …], body}.`,
    )
  }
}

function replyProblem(response: Reply): string | undefined {
  if (response === handled) return undefined
  if (typeof response !== 'object') return `a ${typeof response}`
  const { status, headers, body } = response
  if (!Number.isInteger(status) || status < 200 || status > 599) return `an object whose status is ${status}`
  if (!Array.isArray(headers)) return `a reply whose headers are ${kindOf(headers)}, not a list`
  if (headers.length % 2 !== 0) return 'a reply whose headers are not pairs of name and value'
  if (body === null || typeof body === 'string' || body instanceof Uint8Array || Array.isArray(body))
    return undefined
  return `a reply whose body is ${kindOf(body)}, not a string, bytes or null`
}

export const kindOf = (value: unknown): string => (value === null ? 'null' : typeof value)

/**
 * The hooks of one link, in fields of one object. A list would add two objects, and with very many links the CPU caches hold none
 * of them (bench/scale.ts, `scale_free_vs_ten` and `scale_402_vs_ten`). A list exists only if there are more than eight hooks.
 */
export class LinkHooks {
  readonly p0: RouteHooks | undefined
  readonly p1: RouteHooks | undefined
  readonly p2: RouteHooks | undefined
  readonly p3: RouteHooks | undefined
  readonly p4: RouteHooks | undefined
  readonly p5: RouteHooks | undefined
  readonly p6: RouteHooks | undefined
  readonly p7: RouteHooks | undefined
  /** All hooks if there are more than eight. Otherwise undefined. */
  readonly all: readonly RouteHooks[] | undefined

  constructor(hooks: readonly RouteHooks[]) {
    ;[this.p0, this.p1, this.p2, this.p3, this.p4, this.p5, this.p6, this.p7] = hooks
    this.all = hooks.length > 8 ? hooks : undefined
  }
}

/** @returns undefined if `at` is past the last hook */
function hooksAt(hooks: LinkHooks, at: number): RouteHooks | undefined {
  switch (at) {
    case 0:
      return hooks.p0
    case 1:
      return hooks.p1
    case 2:
      return hooks.p2
    case 3:
      return hooks.p3
    case 4:
      return hooks.p4
    case 5:
      return hooks.p5
    case 6:
      return hooks.p6
    case 7:
      return hooks.p7
    default:
      return hooks.all?.[at]
  }
}

const own = (x: Exchange, at: number) => hooksAt(x.pipeline as LinkHooks, at)!

/**
 * Makes a hook of a shape, which runs the hook of the called link. Each phase has its own function, so that the property name in
 * each function is a constant for V8.
 */
export const hookAt: { readonly [P in GatewayPhase]: (at: number) => Hook } = {
  guard: (at) => (x) => own(x, at).guard!(x),
  pay: (at) => (x) => own(x, at).pay!(x),
  claim: (at) => (x) => own(x, at).claim!(x),
  verify: (at) => (x) => own(x, at).verify!(x),
  forward: (at) => (x) => own(x, at).forward!(x),
  settle: (at) => (x) => own(x, at).settle!(x),
  record: (at) => (x) => own(x, at).record!(x),
  respond: (at) => (x) => own(x, at).respond!(x),
}

/** Makes a hook of a shape that runs after the response. */
export const lateHookAt: { readonly [P in AfterResponsePhase]: (at: number) => AfterResponseHook } = {
  deliver: (at) => (x) => own(x, at).deliver!(x),
  log: (at) => (x) => own(x, at).log!(x),
}
