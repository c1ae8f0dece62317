import type { ServedLink } from '../domain/link.ts'
import type { GatewayPhase, Hook, PostAnswerHook, PostAnswerPhase, RouteHooks } from '../plugin/gateway.ts'
import type { Reply } from '../plugin/reply.ts'
import type { StepOf } from './lineUp.ts'
import type { Check } from './run.ts'

/** One hook in its place. */
export type Step = StepOf<GatewayPhase, Hook>
/** One hook that runs after the answer. */
export type PostAnswerStep = StepOf<PostAnswerPhase, PostAnswerHook>

/** What programs have in common in which the same plugins have hooks of the same phases. */
export interface Shape {
  /** What the runner loops over: hooks that find a link's own by the call's `parts`. */
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
export class Program {
  readonly shape: Shape
  readonly #link: ServedLink
  /** What its plugins have for this link: a call carries it along. */
  readonly parts: readonly RouteHooks[]

  constructor(link: ServedLink, shape: Shape, parts: readonly RouteHooks[]) {
    this.#link = link
    this.shape = shape
    this.parts = parts
  }

  /** Says that no further call will run it; those that run already may go on. Never throws. */
  dispose(): void {
    const { plugins, notDisposed } = this.shape
    this.parts.forEach((part, at) => {
      const failed = (cause: unknown) =>
        notDisposed(
          this.#link,
          new Error(`Plugin ${plugins[at]} failed to dispose of a link: ${String(cause)}`, { cause }),
        )
      try {
        const late: unknown = part.dispose?.()
        if (late instanceof Promise) late.catch(failed)
      } catch (cause) {
        failed(cause)
      }
    })
  }
}
