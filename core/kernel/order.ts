/** A plugin reads a slot that nothing before it writes. */
export interface OrderProblem {
  readonly reader: string
  readonly phase: string
  readonly slot: string
  /** The plugin that writes the slot too late; undefined when none does. */
  readonly writer: string | undefined
  readonly message: string
}

/** What the check looks at of a step and of a plugin, whichever host they belong to. */
interface OrderedStep {
  readonly plugin: string
  readonly phase: string
}
interface SlotUser {
  readonly slots?: {
    readonly [phase: string]:
      | { readonly reads?: readonly string[]; readonly writes?: readonly string[] }
      | undefined
  }
}
type SlotUsers = ReadonlyMap<string, SlotUser>

/**
 * Checks a program's hooks in their order against what the plugins say they read and write.
 *
 * @returns one problem per read that nothing earlier serves; empty when the order holds.
 */
export function checkOrder(steps: readonly OrderedStep[], plugins: SlotUsers): OrderProblem[] {
  const problems: OrderProblem[] = []
  const written = new Set<string>()
  for (const [at, step] of steps.entries()) {
    const use = plugins.get(step.plugin)?.slots?.[step.phase]
    for (const slot of use?.reads ?? []) {
      if (!written.has(slot))
        problems.push(problemOf(step, slot, laterWriter(steps.slice(at), slot, plugins)))
    }
    for (const slot of use?.writes ?? []) written.add(slot)
  }
  return problems
}

function laterWriter(steps: readonly OrderedStep[], slot: string, plugins: SlotUsers) {
  return steps.find((s) => plugins.get(s.plugin)?.slots?.[s.phase]?.writes?.includes(slot))?.plugin
}

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
