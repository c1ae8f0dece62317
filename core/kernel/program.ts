import { isPaid, type ServedLink } from '../domain/link.ts'
import type { GatewayPhase, Hook, PostAnswerHook, PostAnswerPhase, RouteHooks } from '../plugin/gateway.ts'
import type { Reply } from '../plugin/reply.ts'
import type { FreshOffer } from '../x402/refusedPayment.ts'
import type { StepOf } from './lineUp.ts'
import { type Check, Parts } from './run.ts'

/** One hook in its place. */
export type Step = StepOf<GatewayPhase, Hook>
/** One hook that runs after the answer. */
export type PostAnswerStep = StepOf<PostAnswerPhase, PostAnswerHook>

/** What programs have in common in which the same plugins have hooks of the same phases. */
export interface Shape {
  /** What the runner loops over: hooks that find a link's own by the call's `program`. */
  readonly hooks: readonly Hook[]
  /** Tells a reply from what is none, by the name of the plugin that gave it. */
  readonly check: Check<Reply>
  /** The same hooks with names, for `tollgate check` and error messages. */
  readonly steps: readonly Step[]
  /** What runs after the answer: every `deliver`, then every `log`. */
  readonly postAnswer: readonly PostAnswerStep[]
  /** Whose the parts are, in their order. */
  readonly plugins: readonly string[]
  /** Told of what a plugin's `dispose` threw, or of its promise that rejected. */
  readonly notDisposed: NotDisposed
}

export type NotDisposed = (link: ServedLink, error: Error) => void

/** What one version of one link does with a call: hooks in order, nothing else. */
export class Program extends Parts {
  /** `<seller>/<slug>`, by which the route table finds it; empty where no address leads there. */
  key = ''
  readonly link: ServedLink
  readonly shape: Shape
  readonly isPaid: boolean
  /** Methods that the link takes; null for all. */
  readonly methods: ReadonlySet<string> | null

  constructor(link: ServedLink, shape: Shape, parts: readonly RouteHooks[]) {
    super(parts)
    this.link = link
    this.shape = shape
    this.isPaid = isPaid(link)
    this.methods = link.methods.length === 0 ? null : new Set(link.methods)
  }

  /** How the link can be paid now; undefined where none of its plugins says so. Looked for on each failure, not kept. */
  get offer(): FreshOffer | undefined {
    return this.#parts().find((part) => part?.offer !== undefined)?.offer
  }

  /** Says that no further call will run it; those that run already may go on. Never throws. */
  dispose(): void {
    const { plugins, notDisposed } = this.shape
    const parts = this.#parts()
    plugins.forEach((plugin, at) => {
      const failed = (cause: unknown) =>
        notDisposed(
          this.link,
          new Error(`Plugin ${plugin} failed to dispose of a link: ${String(cause)}`, { cause }),
        )
      try {
        const late: unknown = parts[at]?.dispose?.()
        if (late instanceof Promise) late.catch(failed)
      } catch (cause) {
        failed(cause)
      }
    })
  }

  #parts(): readonly (RouteHooks | undefined)[] {
    const { p0, p1, p2, p3, p4, p5, p6, p7 } = this
    return this.all ?? [p0, p1, p2, p3, p4, p5, p6, p7]
  }
}
