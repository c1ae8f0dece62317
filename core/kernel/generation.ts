import { isPaid, type ServedLink } from '../domain/link.ts'
import { TollgateError } from '../errors/error.ts'
import type { AnyGatewayPlugin, PluginInstance } from '../plugin/gateway.ts'
import type { GatewayPorts } from '../plugin/ports.ts'
import { compile, type ReadyPlugin } from './compile.ts'
import { GenerationError } from './generationError.ts'
import { checkOrder } from './order.ts'
import { paidGaps } from './paidGaps.ts'
import type { Program } from './program.ts'
import { prototypeLinks } from './prototypeLinks.ts'
import { closePlugins, setUpPlugin } from './setUpPlugin.ts'
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
  readonly #byName: ReadonlyMap<string, AnyGatewayPlugin>
  #calls = 0
  #retired: (() => void) | null = null

  constructor(plugins: readonly ReadyPlugin[]) {
    this.plugins = plugins
    this.#byName = pluginsByName(plugins)
  }

  /**
   * The program of one link version.
   * @throws {TollgateError} `settlement_unavailable` for a paid link that these plugins would serve unpaid
   */
  compile(link: ServedLink): Program {
    const program = compile(link, this.plugins)
    if (!isPaid(link) || paidGaps(program.steps, this.#byName) === 'nothing') return program
    program.dispose()
    throw new TollgateError(
      'settlement_unavailable',
      'This gateway does not take payments for this link. You were not charged.',
    )
  }

  start(): void {
    for (const { instance } of this.plugins) instance.start?.()
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

  /** Stops the background work of every plugin at once, waits for the calls under way, then closes every plugin. */
  async retire(): Promise<void> {
    let failure: { readonly error: unknown } | undefined
    for (const { instance } of this.plugins) {
      try {
        instance.stop?.()
      } catch (error) {
        failure ??= { error }
      }
    }
    if (this.#calls > 0) await new Promise<void>((resolve) => (this.#retired = resolve))
    await this.closePlugins()
    if (failure !== undefined) throw failure.error
  }

  /** Closes every plugin, whatever the others do. @throws the first failure, after the last one was closed. */
  closePlugins(): Promise<void> {
    return closePlugins(this.plugins.map(({ instance }) => instance))
  }
}

/**
 * Sets up every plugin and checks the order of their hooks for a free link and for both ways of charging.
 *
 * @throws {GenerationError} with every problem in its message; what was set up is closed again, nothing else changes.
 */
export async function buildGeneration(
  entries: readonly PluginEntry[],
  ports: GatewayPorts,
): Promise<Generation> {
  const ready: ReadyPlugin[] = []
  try {
    for (const entry of entries) ready.push(await setUp(entry, ports))
    assertOrder(ready)
    return new Generation(ready)
  } catch (error) {
    // Why it was refused matters more than how it closed.
    await new Generation(ready).closePlugins().catch(() => undefined)
    throw error
  }
}

async function setUp({ plugin, options, when }: PluginEntry, ports: GatewayPorts): Promise<ReadyPlugin> {
  const instance = await setUpPlugin<PluginInstance>(plugin, options, ports, 'gateway')
  return { plugin, instance, applies: compileWhen(when) }
}

function assertOrder(ready: readonly ReadyPlugin[]): void {
  const byName = pluginsByName(ready)
  const messages = new Set<string>()
  for (const link of prototypeLinks) {
    const program = compile(link, ready)
    for (const problem of checkOrder(program.steps, byName)) messages.add(problem.message)
    const gaps = isPaid(link) ? paidGaps(program.steps, byName) : 'nothing'
    if (typeof gaps !== 'string') for (const gap of gaps) messages.add(gap)
    program.dispose()
  }
  if (messages.size > 0) throw new GenerationError([...messages].join('\n'))
}

const pluginsByName = (ready: readonly ReadyPlugin[]): ReadonlyMap<string, AnyGatewayPlugin> =>
  new Map(ready.map(({ plugin }) => [plugin.name, plugin]))
