/** A plugin's hooks for one program, with the plugin's name. */
export interface Routed<H> {
  readonly name: string
  readonly hooks: H
}

/** One hook in its place. */
export interface StepOf<P extends string, F> {
  readonly plugin: string
  readonly phase: P
  readonly hook: F
}

/** Lines hooks up by phase, inside a phase in the order of the configuration. A plugin without a hook is not in it. */
export function lineUp<P extends string, F>(
  phases: readonly P[],
  routed: readonly Routed<{ readonly [Phase in P]?: F }>[],
): StepOf<P, F>[] {
  return phases.flatMap((phase) =>
    routed.flatMap(({ name, hooks }) => {
      const hook = hooks[phase]
      return hook === undefined ? [] : [{ plugin: name, phase, hook }]
    }),
  )
}
