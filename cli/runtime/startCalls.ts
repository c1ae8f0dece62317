import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import { CallPlane } from '../../gateway/callPlane.ts'
import { createReloader, generationOf } from './createReloader.ts'
import { openLate } from './open/openChains.ts'
import type { Stack } from './open/openStack.ts'

/** Pipelines of links in a process without a public listener. Tool calls and the background jobs of plugins use them. */
export interface Calls {
  readonly linkCalls: CallPlane['linkCalls']
  readonly calls: CallPlane
  /** See {@link import('./startDataPlane.ts').DataPlane.reload}. */
  reload(next: Pick<LoadedConfig<AnyGatewayPlugin>, 'plugins'>): Promise<void>
  close(): Promise<void>
}

/** @param onLate called when a network can now be settled on, before the links are compiled again */
export async function startCalls(
  { config, plugins }: Pick<LoadedConfig<AnyGatewayPlugin>, 'config' | 'plugins'>,
  { ports, chains }: Stack,
  onLate: () => void = () => undefined,
): Promise<Calls> {
  const calls = new CallPlane(await generationOf(plugins, ports), ports, config.gateway)
  const reloader = createReloader(calls, ports, plugins)
  const late = openLate(chains, ports.log, () => {
    onLate()
    return reloader.again()
  })
  return {
    linkCalls: calls.linkCalls,
    calls,
    reload: (next) => reloader.to(next.plugins),
    async close() {
      void late.stop()
      await calls.close()
    },
  }
}
