import type { GatewayPhase, Hook, PostAnswerHook, PostAnswerPhase } from '../plugin/gateway.ts'
import type { Reply } from '../plugin/reply.ts'
import type { StepOf } from './lineUp.ts'
import type { Check } from './run.ts'

/** One hook in its place. */
export type Step = StepOf<GatewayPhase, Hook>
/** One hook that runs after the answer. */
export type PostAnswerStep = StepOf<PostAnswerPhase, PostAnswerHook>

/** What one version of one link does with a call: hooks in order, nothing else. */
export interface Program {
  /** The hooks alone: what the runner loops over. */
  readonly hooks: readonly Hook[]
  /** Tells a reply from what is none, by the name of the plugin that gave it. */
  readonly check: Check<Reply>
  /** The same with names, for `tollgate check` and error messages. */
  readonly steps: readonly Step[]
  /** What runs after the answer: every `deliver`, then every `log`. */
  readonly postAnswer: readonly PostAnswerStep[]
  /** Says that no further call will run it; those that run already may go on. */
  dispose(): void
}
