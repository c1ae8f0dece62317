import type { Exchange } from '../plugin/exchange.ts'
import type { GatewayPhase, Hook } from '../plugin/gateway.ts'

/** One hook in its place. */
export interface Step {
  readonly plugin: string
  readonly phase: GatewayPhase
  readonly hook: Hook
}

/** What one version of one link does with a call: hooks in order, nothing else. */
export interface Program {
  /** The hooks alone: what the runner loops over. */
  readonly hooks: readonly Hook[]
  readonly logs: readonly ((x: Exchange) => void)[]
  /** The same with names, for `tollgate check` and error messages. */
  readonly steps: readonly Step[]
  readonly logPlugins: readonly string[]
  /** Says that no further call will run it; those that run already may go on. */
  dispose(): void
}
