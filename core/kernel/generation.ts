import { setImmediate as turnOfLoop } from 'node:timers/promises'
import { isPaid, type ServedLink } from '../domain/link.ts'
import { TollgateError } from '../errors/error.ts'
import type { Reply } from '../http/replies.ts'
import type { Exchange } from '../plugin/exchange.ts'
import type { AnyGatewayPlugin } from '../plugin/gateway.ts'
import type { GatewayPorts } from '../plugin/ports.ts'
import {
  type OwnSlot,
  type OwnSlotName,
  type PaymentSlot,
  paidGaps,
  paymentSlots,
  signInGaps,
} from '../plugin/slots.ts'
import type { Log } from '../ports/log.ts'
import { compile, Shapes } from './compile.ts'
import { assertDeclarations, assertNames } from './declarations.ts'
import { checkOrder, checkWriters } from './order.ts'
import { Pipeline, type Shape } from './pipeline.ts'
import { linksMatching, prototypeLinks } from './prototypeLinks.ts'
import {
  closePlugins,
  compileWhen,
  GenerationError,
  type ReadyPlugin,
  setUpPlugin,
  type When,
} from './readyPlugin.ts'
import { type OnSlotMisuse, SlotGuard } from './slotGuard.ts'

export { GenerationError } from './readyPlugin.ts'

/** One entry of the configuration's plugin list. Its plugin is loaded, and its options are checked and include the defaults. */
export interface PluginEntry {
  readonly plugin: AnyGatewayPlugin
  readonly options: unknown
  readonly when?: When | undefined
}

/**
 * One configuration in use. Its plugins are set up, and it compiles the pipelines of links. A reload builds the next generation,
 * makes it current, and retires the old generation. The old generation closes when its last call has ended.
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
   * Compiles the pipeline of one link version. If the pipeline is invalid, the log gives the reason once, and the pipeline refuses
   * every call. The error is `link_misconfigured`, or `settlement_unavailable` for a paid link of a gateway that accepts no
   * payments.
   */
  compile(link: ServedLink): Pipeline {
    const { pipeline, problems, takesNoPayment } = this.examine(link)
    const { id: linkId, username, slug } = link
    if (pipeline !== undefined && problems.length === 0 && !takesNoPayment) return pipeline
    pipeline?.dispose()
    if (problems.length === 0) return refusing(link, noPayments())
    this.#log.error(
      { linkId, username, slug, problems },
      'the pipeline of a link is not valid; its calls are refused',
    )
    return refusing(link, misconfigured())
  }

  /** Compiles the pipeline of a link and lists its problems. The caller disposes of the pipeline. */
  examine(link: ServedLink): Examined {
    const charged = this.#examine(link, isPaid(link))
    if (link.access === null || !isPaid(link) || charged.pipeline === undefined) return charged
    const { pipeline, problems } = this.#examine(link, false)
    if (pipeline !== undefined) charged.pipeline.signedIn = pipeline
    return { ...charged, problems: [...charged.problems, ...problems] }
  }

  /** @param isCharged false for calls that a wallet's signature admits to a paid link */
  #examine(link: ServedLink, isCharged: boolean): Examined {
    let pipeline: Pipeline
    try {
      pipeline = compile(link, this.plugins, this.#shapes, this.#guard, isCharged)
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      return { pipeline: undefined, problems: [problem], takesNoPayment: false }
    }
    let verdict = this.#verdicts.get(pipeline.shape)
    if (verdict === undefined)
      this.#verdicts.set(
        pipeline.shape,
        (verdict = this.#judge(pipeline.shape, isCharged, link.access !== null)),
      )
    return { pipeline, ...verdict }
  }

  /**
   * Judges a shape. The verdict applies to all links of the shape, because they are all paid, all free, or all for signed-in
   * wallets.
   */
  #judge({ steps, afterResponse }: Shape, isPaid: boolean, hasAccess: boolean): Verdict {
    const gaps = isPaid ? paidGaps(steps, (slot) => this.#writersOf(slot)) : 'nothing'
    // This gateway accepts no payments, so paid links refuse all calls, and the pipeline never runs.
    if (gaps === 'everything') return { problems: [], takesNoPayment: true }
    const problems = checkOrder([...steps, ...afterResponse]).map(({ message }) => message)
    problems.push(...checkWriters(steps, paymentSlots))
    if (gaps !== 'nothing') problems.push(...gaps)
    if (!isPaid && hasAccess) problems.push(...signInGaps(steps))
    return { problems, takesNoPayment: false }
  }

  /** Names of plugins that write a slot but are not in the configuration. */
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

  /**
   * Logs a failure of background work. The generation does not await that work, so its rejection would otherwise end the process.
   */
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
   * Stops the background work of every plugin at once, waits for the calls in flight, and then closes every plugin.
   *
   * @param givenUp resolves when all pipelines of the generation are disposed of
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

  /**
   * Closes every plugin, even if another plugin fails to close.
   *
   * @throws the first failure, after all plugins have been closed
   */
  closePlugins(): Promise<void> {
    return closePlugins(this.plugins.map(({ instance }) => instance))
  }
}

/** The result of {@link Generation.examine}. */
export interface Examined extends Verdict {
  /** Undefined if a plugin failed to return its hooks. */
  readonly pipeline: Pipeline | undefined
}

/** The problems of a pipeline. */
interface Verdict {
  /** The problems as messages. Empty if the pipeline is valid. */
  readonly problems: readonly string[]
  /** True for a paid link if no plugin handles payments. */
  readonly takesNoPayment: boolean
}

export interface GenerationOptions {
  /** Plugins that a message may suggest adding. Absent: the built-in plugins. */
  readonly known?: readonly AnyGatewayPlugin[]
  /**
   * Makes a hook throw if it reads or writes an undeclared slot, and gets that error. Only tests set it, because it adds a check to
   * every access.
   */
  readonly onSlotMisuse?: OnSlotMisuse
  /** Lets calls run between two steps. Tests replace it to simulate time. */
  readonly nextTurn?: () => Promise<unknown>
}

/**
 * Sets up every plugin. Then it checks the pipelines of a free link, of a paid link for each time of the charge, and of links that
 * match the patterns of each `when`. Each check runs in its own turn of the event loop, so that calls continue meanwhile.
 *
 * @throws {GenerationError} with every problem in its message. The plugins that were set up are closed again, and nothing else
 *   changes
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
    // An error of closing must not replace the setup's error.
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
      examined.pipeline?.dispose()
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

/** A pipeline that refuses every call. */
function refusing(link: ServedLink, error: TollgateError): Pipeline {
  const refuse = () => {
    throw error
  }
  const nothing = { steps: [], afterResponse: [], plugins: [] }
  const shape = { ...nothing, hooks: [refuse], check: (reply: Reply) => reply, notDisposed() {} }
  return new Pipeline(link, shape, [])
}

const noPayments = () =>
  new TollgateError(
    'settlement_unavailable',
    'This gateway does not accept payments for this link. You were not charged.',
  )

const misconfigured = () =>
  new TollgateError(
    'link_misconfigured',
    "The gateway's plugins are not configured to serve this link. You were not charged; the operator finds the reason in the log.",
  )

/**
 * The slots that the plugins of one generation declared as their own. Each slot has the same index in every call, so that V8 gives
 * all calls the same object shape. Two entries of the same plugin share its slots.
 */
export class OwnSlotTable {
  readonly #places = new Map<string, number>()
  /** The initial values for every call, by index. A call uses this array until it writes a slot. */
  readonly #initial: unknown[] = []

  constructor(plugins: readonly AnyGatewayPlugin[]) {
    for (const [name, value] of plugins.flatMap(({ ownSlots }) => Object.entries(ownSlots ?? {}))) {
      if (this.#places.has(name)) continue
      this.#places.set(name, this.#initial.push(value) - 1)
    }
  }

  /** @throws {GenerationError} for a slot that the plugin has not declared */
  slotOf({ name, slots, ownSlots }: AnyGatewayPlugin, slot: string): OwnSlot<unknown> {
    const isDeclared =
      Object.hasOwn(ownSlots ?? {}, slot) ||
      Object.values(slots ?? {}).some((use) =>
        Object.values(use ?? {}).some((names) => (names as string[]).includes(slot)),
      )
    if (!isDeclared) throw new GenerationError(`${name} requested slot ${slot}, which it has not declared.`)
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

/** The slot of a plugin that is not in the configuration. Its value is always undefined, and writes have no effect. */
const absent: OwnSlot<unknown> = { get: () => undefined, set() {} }
