import type { SlotNames } from './order.ts'

/** A plugin's hooks for one program, with the plugin's name and what they read and write. */
export interface Routed<H> {
  readonly name: string
  readonly hooks: H
  readonly slots?: { readonly [phase: string]: SlotNames | null | undefined } | null | undefined
}

/** One hook in its place. */
export interface StepOf<P extends string, F> {
  readonly plugin: string
  readonly phase: P
  readonly hook: F
  readonly uses: SlotNames
}

const nothing: SlotNames = {}

/** Lines hooks up by phase, inside a phase in the order of the configuration. A plugin without a hook is not in it. */
export function lineUp<P extends string, F>(
  phases: readonly P[],
  routed: readonly Routed<{ readonly [Phase in P]?: F }>[],
): StepOf<P, F>[] {
  return phases.flatMap((phase) =>
    routed.flatMap(({ name, hooks, slots }) => {
      const hook = hooks[phase]
      if (hook === undefined || hook === null) return []
      return [{ plugin: name, phase, hook, uses: slots?.[phase] ?? nothing }]
    }),
  )
}
