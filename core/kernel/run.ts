import type { Exchange } from '../plugin/exchange.ts'
import type { GatewayPhase, Hook, PostAnswerHook, PostAnswerPhase, RouteHooks } from '../plugin/gateway.ts'
import { handled, type Reply } from '../plugin/reply.ts'

/** What the runner needs of a hook, whichever host it belongs to: it goes on, or stops with an answer. */
export type HookOf<X, A = Reply> = (x: X) => A | undefined | void | Promise<A | undefined | void>

/** Every hook passed: the last one has left its answer on the call, or nobody answers it. */
export const passed: Reply = Object.freeze({ status: 0, headers: [], body: null })

/** Looks at what a hook answered, once for each call. @param at the hook's place in the program */
export type Check<A> = (answer: A, at: number) => A | Reply

/** What the runner tells of a call of which a hook answers later. */
export interface Watch<X> {
  /** @param at the hook's place in the program */
  waits(x: X, at: number): void
  /** False for a call that has been ended meanwhile: no further hook runs, whatever this one has answered. */
  mayGoOn(x: X): boolean
}

/**
 * Runs one call through its program's hooks. A loop, not an onion: nothing is allocated unless a hook answers later, and
 * what is not a promise is not awaited (bench/plugins.ts: about 6 ns a hook, against 75 for `await`).
 *
 * @returns the first answer, or {@link passed}
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
    // A plugin written in JavaScript may say null for nothing.
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

/** What libraries give instead of a promise: a query that runs once somebody waits for it. */
const isThenable = <T>(value: T | PromiseLike<T>): value is PromiseLike<T> =>
  typeof (value as { then?: unknown }).then === 'function'

/**
 * Tells a reply from whatever else the hooks of a program may answer, in words that name whose it was.
 *
 * @returns a check that throws an `Error`; the caller of the link hears of an internal error
 */
export function replyCheckOf(
  steps: readonly { readonly plugin: string; readonly phase: string }[],
): Check<Reply> {
  return (answer, at) => {
    const problem = replyProblem(answer)
    if (problem === undefined) return answer
    // The constant of another copy of the contract, which a plugin brought along.
    if (answer.status === 0 && answer.body === null) return handled
    const { plugin, phase } = steps[at]!
    throw new Error(
      `Plugin ${plugin} answered ${problem} in phase ${phase}. Expected nothing, to go on, or {status, headers: [name, value, …], body}.`,
    )
  }
}

function replyProblem(answer: Reply): string | undefined {
  if (answer === handled) return undefined
  if (typeof answer !== 'object') return `a ${typeof answer}`
  const { status, headers, body } = answer
  if (!Number.isInteger(status) || status < 200 || status > 599) return `an object whose status is ${status}`
  if (!Array.isArray(headers)) return `a reply whose headers are ${kindOf(headers)}, not a list`
  if (headers.length % 2 !== 0) return 'a reply whose headers are not pairs of name and value'
  if (body === null || typeof body === 'string' || body instanceof Uint8Array || Array.isArray(body))
    return undefined
  return `a reply whose body is ${kindOf(body)}, not a string, bytes or null`
}

export const kindOf = (value: unknown): string => (value === null ? 'null' : typeof value)

/**
 * What plugins have for one link, in the fields of one object: as a list it would be two more, and of very many links none of them is in
 * a cache. What is not in the first fields is in a list.
 */
export class Parts {
  readonly p0: RouteHooks | undefined
  readonly p1: RouteHooks | undefined
  readonly p2: RouteHooks | undefined
  readonly p3: RouteHooks | undefined
  readonly p4: RouteHooks | undefined
  readonly p5: RouteHooks | undefined
  readonly p6: RouteHooks | undefined
  readonly p7: RouteHooks | undefined
  /** All of them, where they are more. */
  readonly all: readonly RouteHooks[] | undefined

  constructor(parts: readonly RouteHooks[]) {
    ;[this.p0, this.p1, this.p2, this.p3, this.p4, this.p5, this.p6, this.p7] = parts
    this.all = parts.length > 8 ? parts : undefined
  }
}

/** @returns undefined behind the last one */
function partAt(parts: Parts, at: number): RouteHooks | undefined {
  switch (at) {
    case 0:
      return parts.p0
    case 1:
      return parts.p1
    case 2:
      return parts.p2
    case 3:
      return parts.p3
    case 4:
      return parts.p4
    case 5:
      return parts.p5
    case 6:
      return parts.p6
    case 7:
      return parts.p7
    default:
      return parts.all?.[at]
  }
}

const own = (x: Exchange, at: number) => partAt(x.program as Parts, at)!

/**
 * A hook of a shape: it runs that of the link whose call it is. One function for each phase, so that the name of the hook is known
 * where it is called.
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

/** The same of what runs after the answer. */
export const lateHookAt: { readonly [P in PostAnswerPhase]: (at: number) => PostAnswerHook } = {
  deliver: (at) => (x) => own(x, at).deliver!(x),
  log: (at) => (x) => own(x, at).log!(x),
}
