/** A plugin reads a slot that nothing before it writes. */
export interface OrderProblem {
  readonly reader: string
  readonly phase: string
  readonly slot: string
  /** The plugin that writes the slot too late; undefined when none does. */
  readonly writer: string | undefined
  readonly message: string
}

/** Slots that a hook reads and writes, whichever host it belongs to. */
export interface SlotNames {
  readonly reads?: readonly string[]
  readonly writes?: readonly string[]
}

/** What the check looks at of a step. */
interface OrderedStep {
  readonly plugin: string
  readonly phase: string
  readonly uses: SlotNames
}

/**
 * Checks a program's hooks in their order against what the plugins say they read and write.
 *
 * @returns one problem per read that nothing earlier serves; empty when the order holds.
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
 * Slots that two hooks of a program fill, neither of which looks at what is there: the call would be claimed, charged or
 * answered twice. Who changes what another wrote reads it as well.
 */
export function checkWriters(steps: readonly OrderedStep[], slots: readonly string[]): string[] {
  return slots.flatMap((slot) => {
    const fills = ({ uses }: OrderedStep) => uses.writes?.includes(slot) && !uses.reads?.includes(slot)
    const [first, second] = steps.filter(fills)
    if (first === undefined || second === undefined) return []
    return `Plugin ${second.plugin} writes ${slot} in phase ${second.phase}, and so does ${first.plugin} before it. Take one of them out, or part their links by when.`
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
