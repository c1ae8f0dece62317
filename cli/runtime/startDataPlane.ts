import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import { buildGeneration } from '../../core/kernel/generation.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import { createHandOver } from '../../gateway/handOver.ts'
import { createGateway } from '../../gateway/server.ts'
import { builtInPlugins } from '../../plugins/builtIn.ts'
import { openLate } from './openLate.ts'
import type { Stack } from './openStack.ts'
import { urlOf } from './urlOf.ts'

/** What a data plane is made of: a configuration's own settings, and the plugins of this or of a later reading. */
type Loaded = Pick<LoadedConfig<AnyGatewayPlugin>, 'config' | 'plugins'>

/** The public listener with its plugins: one per process. */
export interface DataPlane {
  readonly gatewayUrl: string
  /**
   * Runs the plugins of a newly read configuration from the next call on; calls under way end with the old ones. What
   * fails leaves the old ones running. Reloads that meet are made one after the other.
   */
  reload(next: Pick<Loaded, 'plugins'>): Promise<void>
  /** Offers networks that can be settled on by now. */
  openMissing(): Promise<void>
  close(): Promise<void>
}

export async function startDataPlane(
  { config, plugins }: Loaded,
  { ports, chains }: Stack,
  adminUrl: string,
): Promise<DataPlane> {
  let current = plugins
  const generation = await buildGeneration(current, ports, { known: builtInPlugins })
  const handOver = createHandOver(() => adminUrl, config.gateway.requestTimeoutMs, ports.log)
  const gateway = createGateway(generation, { ...ports, handOver }, config.gateway)
  const { address: host, port } = await gateway.listen(config.gateway.port, config.gateway.host)
  let line: Promise<unknown> = Promise.resolve()

  /** @param choose asked when it is its turn, so that a reload for another reason keeps the newest plugins */
  function reload(choose: () => Loaded['plugins']): Promise<void> {
    const turn = line.then(async () => {
      const next = choose()
      const { retired } = await gateway.swap(await buildGeneration(next, ports, { known: builtInPlugins }))
      current = next
      retired.catch((err: unknown) => ports.log.error({ err }, 'a plugin did not end as it should'))
    })
    line = turn.catch(() => undefined)
    return turn
  }

  // A link's offers are made when it is compiled: a network that opens later needs new programs.
  const late = openLate(chains, () =>
    reload(() => current).catch((err: unknown) =>
      ports.log.error({ err }, 'could not offer a network that opened'),
    ),
  )

  return {
    gatewayUrl: urlOf({ host, port }),
    reload: (next) => reload(() => next.plugins),
    openMissing: late.now,
    async close() {
      late.stop()
      await gateway.close()
    },
  }
}
