import { setImmediate as turnOfLoop } from 'node:timers/promises'
import { isPaid, type ServedLink } from '../domain/link.ts'
import { TollgateError } from '../errors/error.ts'
import { paidGaps } from '../payments/paidGaps.ts'
import type { Exchange } from '../plugin/exchange.ts'
import type { AnyGatewayPlugin } from '../plugin/gateway.ts'
import type { GatewayPorts } from '../plugin/ports.ts'
import type { Reply } from '../plugin/reply.ts'
import { type OwnSlot, type OwnSlotName, type PaymentSlot, paymentSlots } from '../plugin/slots.ts'
import type { Log } from '../ports/log.ts'
import { compile } from './compile.ts'
import { assertDeclarations, assertNames } from './declarations.ts'
import { GenerationError } from './generationError.ts'
import { checkOrder, checkWriters } from './order.ts'
import { Program, type Shape } from './program.ts'
import { linksMatching, prototypeLinks } from './prototypeLinks.ts'
import type { ReadyPlugin } from './readyPlugin.ts'
import { closePlugins, setUpPlugin } from './setUpPlugin.ts'
import { Shapes } from './shapes.ts'
import { type OnSlotMisuse, SlotGuard } from './slotGuard.ts'
import { compileWhen, type When } from './when.ts'

export { GenerationError } from './generationError.ts'

/** One entry of the configuration's plugin list, its plugin found and its options checked, defaults filled in. */
export interface PluginEntry {
  readonly plugin: AnyGatewayPlugin
  readonly options: unknown
  readonly when?: When | undefined
}

/**
 * One configuration, running: its plugins set up, able to compile programs. A reload builds the next one beside it,
 * swaps one reference, and retires this one, which closes when its last call has left.
 */
export class Generation {
  readonly plugins: readonly ReadyPlugin[]
  readonly #log: Log
  readonly #options: GenerationOptions
  readonly #guard: SlotGuard | undefined
  readonly #shapes: Shapes
  readonly #verdicts = new WeakMap<Shape, Verdict>()
  #calls = 0
  #retired: (() => void) | null = null

  constructor(plugins: readonly ReadyPlugin[], log: Log, options: GenerationOptions, guard?: SlotGuard) {
    this.plugins = plugins
    this.#log = log
    this.#options = options
    this.#guard = guard
    this.#shapes = new Shapes(plugins, ({ id: linkId }, err) =>
      log.error({ err, linkId }, 'a plugin failed to dispose of a link'),
    )
  }

  /**
   * The program of one link version. Where it does not hold, the log says why, once, and the program refuses every call: with
   * `link_misconfigured`, or with `settlement_unavailable` for a paid link of a gateway that takes no payments.
   */
  compile(link: ServedLink): Program {
    const { program, problems, takesNoPayment } = this.examine(link)
    const { id: linkId, username, slug } = link
    if (program !== undefined && problems.length === 0 && !takesNoPayment) return program
    program?.dispose()
    if (problems.length === 0) return refusing(link, noPayments())
    this.#log.error(
      { linkId, username, slug, problems },
      'the program of a link does not hold; its calls are refused',
    )
    return refusing(link, misconfigured())
  }

  /** The program of a link and what is wrong with it. Whoever asks disposes of the program. */
  examine(link: ServedLink): Examined {
    let program: Program
    try {
      program = compile(link, this.plugins, this.#shapes, this.#guard)
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      return { program: undefined, problems: [problem], takesNoPayment: false }
    }
    let verdict = this.#verdicts.get(program.shape)
    if (verdict === undefined)
      this.#verdicts.set(program.shape, (verdict = this.#judge(program.shape, isPaid(link))))
    return { program, ...verdict }
  }

  /** Links of one shape are all paid or all free, and what holds for one holds for each. */
  #judge({ steps, postAnswer }: Shape, isPaid: boolean): Verdict {
    const gaps = isPaid ? paidGaps(steps, (slot) => this.#writersOf(slot)) : 'nothing'
    // It never runs.
    if (gaps === 'everything') return { problems: [], takesNoPayment: true }
    const problems = checkOrder([...steps, ...postAnswer]).map(({ message }) => message)
    problems.push(...checkWriters(steps, paymentSlots))
    if (gaps !== 'nothing') problems.push(...gaps)
    return { problems, takesNoPayment: false }
  }

  /** Names of plugins that write a slot and are not in the configuration. */
  #writersOf(slot: PaymentSlot): string[] {
    const here = new Set(this.plugins.map(({ plugin }) => plugin.name))
    return (this.#options.known ?? [])
      .filter(({ name }) => !here.has(name))
      .filter(({ slots }) => Object.values(slots ?? {}).some((use) => use?.writes?.includes(slot)))
      .map(({ name }) => name)
  }

  start(): void {
    for (const { plugin, instance } of this.plugins) this.#watch(plugin.name, 'start', instance.start?.())
  }

  /** Nobody waits for background work; one of its promises that rejects must not end the process. */
  #watch(plugin: string, what: string, begun: unknown): void {
    if (!(begun instanceof Promise)) return
    begun.catch((err: unknown) => this.#log.error({ err, plugin }, `a plugin failed at its ${what}`))
  }

  enter(): void {
    this.#calls++
  }

  leave(): void {
    if (--this.#calls === 0) this.#retired?.()
  }

  get calls(): number {
    return this.#calls
  }

  /**
   * Stops the background work of every plugin at once, waits for the calls under way, then closes every plugin.
   * @param givenUp when no program of it is left to dispose of
   */
  async retire(givenUp?: Promise<void>): Promise<void> {
    let failure: { readonly error: unknown } | undefined
    for (const { plugin, instance } of this.plugins) {
      try {
        this.#watch(plugin.name, 'stop', instance.stop?.())
      } catch (error) {
        failure ??= { error }
      }
    }
    if (this.#calls > 0) await new Promise<void>((resolve) => (this.#retired = resolve))
    await givenUp
    await this.closePlugins()
    if (failure !== undefined) throw failure.error
  }

  /** Closes every plugin, whatever the others do. @throws the first failure, after the last one was closed. */
  closePlugins(): Promise<void> {
    return closePlugins(this.plugins.map(({ instance }) => instance))
  }
}

/** What {@link Generation.examine} finds. */
export interface Examined extends Verdict {
  /** Undefined where there is none, because a plugin could not say what it does. */
  readonly program: Program | undefined
}

/** What is wrong with a program. */
interface Verdict {
  /** In words; empty when the program holds. */
  readonly problems: readonly string[]
  /** A paid link, and no plugin that has to do with payments. */
  readonly takesNoPayment: boolean
}

export interface GenerationOptions {
  /** Plugins that could be added, for the words of a message; the built-in ones. */
  readonly known?: readonly AnyGatewayPlugin[]
  /**
   * For tests: hooks that read or write a slot without having declared it throw, and this is told. Not for production: each
   * look at a call costs a check then.
   */
  readonly onSlotMisuse?: OnSlotMisuse
  /** Gives way to calls between two steps; another one in tests whose time is not the world's. */
  readonly nextTurn?: () => Promise<unknown>
}

/**
 * Sets up every plugin and checks what stands in the programs of a free link and of both ways of charging, and of links that
 * match the patterns of each `when`. Each of them in a turn of the event loop of its own, because calls go on meanwhile.
 *
 * @throws {GenerationError} with every problem in its message; what was set up is closed again, nothing else changes.
 */
export async function buildGeneration(
  entries: readonly PluginEntry[],
  ports: GatewayPorts,
  options: GenerationOptions = {},
): Promise<Generation> {
  const ready: ReadyPlugin[] = []
  const guard = options.onSlotMisuse && new SlotGuard(options.onSlotMisuse)
  const nextTurn = options.nextTurn ?? turnOfLoop
  try {
    assertNames(entries.map(({ plugin }) => plugin))
    for (const { plugin } of entries) assertDeclarations(plugin)
    const table = new OwnSlotTable(entries.map(({ plugin }) => plugin))
    for (const { plugin, options, when } of entries) {
      await nextTurn()
      const slot = (name: OwnSlotName) => {
        const placed = table.slotOf(plugin, name)
        return guard?.slot(plugin, name, placed) ?? placed
      }
      const instance = await setUpPlugin(plugin, options, ports, slot)
      ready.push({ plugin, instance, applies: compileWhen(when), options, when })
    }
    const generation = new Generation(ready, ports.log, options, guard)
    await assertHolds(generation, entries, nextTurn)
    return generation
  } catch (error) {
    // Why it was refused matters more than how it closed.
    await closePlugins(ready.map(({ instance }) => instance)).catch(() => undefined)
    throw error
  }
}

async function assertHolds(
  generation: Generation,
  entries: readonly PluginEntry[],
  nextTurn: () => Promise<unknown>,
): Promise<void> {
  async function problemsOf(links: readonly ServedLink[]): Promise<string[]> {
    const problems: string[] = []
    for (const link of links) {
      await nextTurn()
      const examined = generation.examine(link)
      examined.program?.dispose()
      problems.push(...examined.problems)
    }
    return problems
  }
  const found = new Set(await problemsOf(prototypeLinks))
  const all = [...found]
  for (const pattern of new Set(entries.flatMap(({ when }) => when?.links ?? []))) {
    const more = (await problemsOf(linksMatching(pattern))).filter((problem) => !found.has(problem))
    all.push(...Array.from(new Set(more), (problem) => `Links ${pattern}: ${problem}`))
  }
  if (all.length > 0) throw new GenerationError(all.join('\n'))
}

/** A program that refuses every call. */
function refusing(link: ServedLink, error: TollgateError): Program {
  const refuse = () => {
    throw error
  }
  const nothing = { steps: [], postAnswer: [], plugins: [] }
  const shape = { ...nothing, hooks: [refuse], check: (reply: Reply) => reply, notDisposed() {} }
  return new Program(link, shape, [])
}

const noPayments = () =>
  new TollgateError(
    'settlement_unavailable',
    'This gateway does not take payments for this link. You were not charged.',
  )

const misconfigured = () =>
  new TollgateError(
    'link_misconfigured',
    "The gateway's plugins can't serve this link as they are set up. You were not charged; the operator finds out more in the log.",
  )

/**
 * The slots that the plugins of one generation declared for themselves: each has one place in every call, so that calls
 * keep one shape. An entry of a plugin that is listed twice shares them with the other.
 */
export class OwnSlotTable {
  readonly #places = new Map<string, number>()
  /** What every call begins with, by place; shared until a call writes. */
  readonly #initial: unknown[] = []

  constructor(plugins: readonly AnyGatewayPlugin[]) {
    for (const [name, value] of plugins.flatMap(({ ownSlots }) => Object.entries(ownSlots ?? {}))) {
      if (this.#places.has(name)) continue
      this.#places.set(name, this.#initial.push(value) - 1)
    }
  }

  /** @throws {GenerationError} for a slot that is in none of the plugin's declarations */
  slotOf({ name, slots, ownSlots }: AnyGatewayPlugin, slot: string): OwnSlot<unknown> {
    const isDeclared =
      Object.hasOwn(ownSlots ?? {}, slot) ||
      Object.values(slots ?? {}).some((use) =>
        Object.values(use ?? {}).some((names) => (names as string[]).includes(slot)),
      )
    if (!isDeclared) throw new GenerationError(`${name} asked for slot ${slot}, which it has not declared.`)
    const place = this.#places.get(slot)
    if (place === undefined) return absent
    return new PlacedSlot(place, this.#initial)
  }
}

class PlacedSlot implements OwnSlot<unknown> {
  readonly #place: number
  readonly #initial: readonly unknown[]

  constructor(place: number, initial: readonly unknown[]) {
    this.#place = place
    this.#initial = initial
  }

  get(x: Exchange): unknown {
    return (x.own ?? this.#initial)[this.#place]
  }

  set(x: Exchange, value: unknown): void {
    ;(x.own ??= [...this.#initial])[this.#place] = value
  }
}

/** Of a plugin that is not in the configuration: only a reader gets it. */
const absent: OwnSlot<unknown> = { get: () => undefined, set() {} }
