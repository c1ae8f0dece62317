import { setImmediate as nextTurn } from 'node:timers/promises'
import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import { buildGeneration, type Generation } from '../../core/kernel/generation.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import type { GatewayPorts } from '../../core/plugin/ports.ts'
import { builtInPlugins } from '../../plugins/builtIn.ts'

type Plugins = LoadedConfig<AnyGatewayPlugin>['plugins']

/** Puts plugins to work, one set after the other: reloads that meet are made in the order in which they came. */
export interface Reloader {
  /** Runs other plugins from the next call on; what fails leaves the present ones running. */
  to(next: Plugins): Promise<void>
  /** Compiles the present ones anew: a link's offers are made when it is compiled. What fails is logged. */
  again(): Promise<void>
}

export const generationOf = (plugins: Plugins, ports: GatewayPorts): Promise<Generation> =>
  buildGeneration(plugins, ports, { known: builtInPlugins })

/** @param first those that run already */
export function createReloader(
  calls: { swap(next: Generation): Promise<{ readonly retired: Promise<void> }> },
  ports: GatewayPorts,
  first: Plugins,
): Reloader {
  let current = first
  let line: Promise<unknown> = Promise.resolve()

  /** @param choose asked when it is its turn, so that a reload for another reason keeps the newest plugins */
  function reload(choose: () => Plugins): Promise<void> {
    const turn = line.then(async () => {
      const next = choose()
      const generation = await generationOf(next, ports)
      // Calls go on meanwhile: the swap has a turn of the event loop to itself, as each step before it.
      await nextTurn()
      const { retired } = await calls.swap(generation)
      current = next
      retired.catch((err: unknown) => ports.log.error({ err }, 'a plugin did not end as it should'))
    })
    line = turn.catch(() => undefined)
    return turn
  }

  return {
    to: (next) => reload(() => next),
    again: () =>
      reload(() => current).catch((err: unknown) =>
        ports.log.error({ err }, 'could not offer a network that opened'),
      ),
  }
}
