import { setImmediate as nextTurn } from 'node:timers/promises'
import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import { buildGeneration, type Generation } from '../../core/kernel/generation.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import type { GatewayPorts } from '../../core/plugin/ports.ts'
import { builtInPlugins } from '../../plugins/builtIn.ts'

type Plugins = LoadedConfig<AnyGatewayPlugin>['plugins']

/** Replaces the plugins. Reloads run one after the other, in the order of their requests. */
export interface Reloader {
  /** Runs the given plugins from the next call on. If the reload fails, the current plugins keep running. */
  to(next: Plugins): Promise<void>
  /**
   * Compiles the pipelines again with the current plugins, because a link's offers are created at compile time. If this fails,
   * the current pipelines keep running.
   */
  again(): Promise<void>
}

export const generationOf = (plugins: Plugins, ports: GatewayPorts): Promise<Generation> =>
  buildGeneration(plugins, ports, { known: builtInPlugins })

/** @param first the plugins that already run */
export function createReloader(
  calls: { swap(next: Generation): Promise<{ readonly retired: Promise<void> }> },
  ports: GatewayPorts,
  first: Plugins,
): Reloader {
  let current = first
  let line: Promise<unknown> = Promise.resolve()

  /** @param choose returns the plugins. It is called when the reload begins, so that any reload uses the newest plugins */
  function reload(choose: () => Plugins): Promise<void> {
    const turn = line.then(async () => {
      const next = choose()
      const generation = await generationOf(next, ports)
      // Each step gets a turn of the event loop of its own, so that calls continue during a reload.
      await nextTurn()
      const { retired } = await calls.swap(generation)
      current = next
      retired.catch((err: unknown) => ports.log.error({ err }, 'a plugin failed to shut down'))
    })
    line = turn.catch(() => undefined)
    return turn
  }

  return {
    to: (next) => reload(() => next),
    again: () => reload(() => current),
  }
}
