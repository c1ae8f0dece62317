import { isPaid, type ServedLink } from '../domain/link.ts'
import type { Reply } from '../http/replies.ts'
import type { FreshOffer } from '../offers/refusedPayment.ts'
import type {
  AfterResponseHook,
  AfterResponsePhase,
  GatewayPhase,
  Hook,
  RouteHooks,
} from '../plugin/gateway.ts'
import type { StepOf } from './order.ts'
import { type Check, LinkHooks } from './run.ts'

/** One hook of a pipeline. */
export type Step = StepOf<GatewayPhase, Hook>
/** One hook that runs after the response. */
export type AfterResponseStep = StepOf<AfterResponsePhase, AfterResponseHook>

/** The part that all pipelines share if the same plugins have hooks in the same phases. */
export interface Shape {
  /** The hooks that the runner calls in order. Each of them calls the link's own hook, which is in the call's `pipeline`. */
  readonly hooks: readonly Hook[]
  /** Checks that a hook's result is a reply. The error for another result names the plugin. */
  readonly check: Check<Reply>
  /** The same hooks with names, for `tollgate check` and error messages. */
  readonly steps: readonly Step[]
  /** The hooks after the response: every `deliver`, then every `log`. */
  readonly afterResponse: readonly AfterResponseStep[]
  /** The plugins of a pipeline, in the order of its hooks. */
  readonly plugins: readonly string[]
  /** Called with the error of a plugin's `dispose`. */
  readonly notDisposed: NotDisposed
}

export type NotDisposed = (link: ServedLink, error: Error) => void

/** The hooks that run, in order, for each call to one version of a link. */
export class Pipeline extends LinkHooks {
  /** `<seller>/<slug>`, the pipeline's key in the route table. Empty if the pipeline is not in the table. */
  key = ''
  readonly link: ServedLink
  readonly shape: Shape
  /** Whether calls are charged. */
  readonly isPaid: boolean
  /** HTTP methods that the link supports. Null for all methods. */
  readonly methods: ReadonlySet<string> | null
  /** The pipeline of calls that a wallet's signature admits instead of a payment. Null for a link without such calls. */
  signedIn: Pipeline | null = null

  constructor(link: ServedLink, shape: Shape, hooks: readonly RouteHooks[], isCharged = isPaid(link)) {
    super(hooks)
    this.link = link
    this.shape = shape
    this.isPaid = isCharged
    this.methods = link.methods.length === 0 ? null : new Set(link.methods)
  }

  /**
   * The offer with which the link can be paid now. Undefined if no plugin has an offer. It is computed for each failure, because
   * offers change.
   */
  get offer(): FreshOffer | undefined {
    return this.#all().find((hooks) => hooks?.offer !== undefined)?.offer
  }

  /** Notifies the plugins that no further call will run this pipeline. Calls that are running may finish. Never throws. */
  dispose(): void {
    this.signedIn?.dispose()
    const { plugins, notDisposed } = this.shape
    const hooks = this.#all()
    plugins.forEach((plugin, at) => {
      const failed = (cause: unknown) =>
        notDisposed(
          this.link,
          new Error(`Plugin ${plugin} failed to dispose of a link: ${String(cause)}`, { cause }),
        )
      try {
        const late: unknown = hooks[at]?.dispose?.()
        if (late instanceof Promise) late.catch(failed)
      } catch (cause) {
        failed(cause)
      }
    })
  }

  #all(): readonly (RouteHooks | undefined)[] {
    const { p0, p1, p2, p3, p4, p5, p6, p7 } = this
    return this.all ?? [p0, p1, p2, p3, p4, p5, p6, p7]
  }
}
