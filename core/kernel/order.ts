/** A read of a slot that no earlier hook writes. */
interface OrderProblem {
  readonly reader: string
  readonly phase: string
  readonly slot: string
  /** The plugin that writes the slot too late. Undefined if no plugin writes the slot. */
  readonly writer: string | undefined
  readonly message: string
}

/** Slots that a hook of a gateway or vault plugin reads and writes. */
interface SlotNames {
  readonly reads?: readonly string[]
  readonly writes?: readonly string[]
  readonly mayWrite?: readonly string[]
}

/** The parts of a step that the check needs. */
interface OrderedStep {
  readonly plugin: string
  readonly phase: string
  readonly uses: SlotNames
}

/**
 * Checks that each slot is written before it is read, by the plugins' declarations.
 *
 * @param steps a pipeline's hooks, in their order
 * @returns one problem for each read of a slot that no earlier hook writes
 */
export function checkOrder(steps: readonly OrderedStep[]): OrderProblem[] {
  const problems: OrderProblem[] = []
  const written = new Set<string>()
  for (const [at, step] of steps.entries()) {
    for (const slot of step.uses.reads ?? []) {
      if (!written.has(slot)) problems.push(problemOf(step, slot, laterWriter(steps.slice(at), slot)))
    }
    for (const slot of step.uses.writes ?? []) written.add(slot)
  }
  return problems
}

/**
 * Finds slots that two hooks of a pipeline write without reading them. The call would then be claimed, charged or answered twice. A
 * hook that only changes another hook's value declares that it reads the slot too.
 */
export function checkWriters(steps: readonly OrderedStep[], slots: readonly string[]): string[] {
  return slots.flatMap((slot) => {
    const fills = ({ uses }: OrderedStep) => uses.writes?.includes(slot) && !uses.reads?.includes(slot)
    const [first, second] = steps.filter(fills)
    if (first === undefined || second === undefined) return []
    return `Plugin ${second.plugin} writes ${slot} in phase ${second.phase}, and so does ${first.plugin} before it. Remove one of them, or use when to give them different links.`
  })
}

const laterWriter = (steps: readonly OrderedStep[], slot: string) =>
  steps.find(({ uses }) => uses.writes?.includes(slot))?.plugin

function problemOf(step: OrderedStep, slot: string, writer: string | undefined): OrderProblem {
  const remedy =
    writer === undefined || writer === step.plugin
      ? `no plugin before it writes ${slot}. Add the plugin that does`
      : `${writer} writes ${slot} only later. Put ${writer} before ${step.plugin}`
  return {
    reader: step.plugin,
    phase: step.phase,
    slot,
    writer,
    message: `Plugin ${step.plugin} reads ${slot} in phase ${step.phase}, but ${remedy} in the list of plugins.`,
  }
}

/** A plugin's hooks for one pipeline, with the plugin's name and the slots that the hooks read and write. */
interface Routed<H> {
  readonly name: string
  readonly hooks: H
  readonly slots?: { readonly [phase: string]: SlotNames | null | undefined } | null | undefined
}

/** One hook of a pipeline. */
export interface StepOf<P extends string, F> {
  readonly plugin: string
  readonly phase: P
  readonly hook: F
  readonly uses: SlotNames
}

const nothing: SlotNames = {}

/** Orders hooks by phase. Within a phase, they have the order of the configuration. A plugin without hooks is left out. */
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
