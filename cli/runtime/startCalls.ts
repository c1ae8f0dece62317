import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import { type CallPlane, createCallPlane } from '../../gateway/callPlane.ts'
import { createReloader, generationOf } from './createReloader.ts'
import { openLate } from './open/openLate.ts'
import type { Stack } from './open/openStack.ts'

/** Links' programs without a listener: for calls of tools, and for what plugins do in the background. */
export interface Calls {
  readonly linkCalls: CallPlane['linkCalls']
  readonly calls: CallPlane
  /** As of the data plane. */
  reload(next: Pick<LoadedConfig<AnyGatewayPlugin>, 'plugins'>): Promise<void>
  close(): Promise<void>
}

/** @param onLate before links are compiled again, because a network can be settled on by now */
export async function startCalls(
  { config, plugins }: Pick<LoadedConfig<AnyGatewayPlugin>, 'config' | 'plugins'>,
  { ports, chains }: Stack,
  onLate: () => void = () => undefined,
): Promise<Calls> {
  const calls = createCallPlane(await generationOf(plugins, ports), ports, config.gateway)
  const reloader = createReloader(calls, ports, plugins)
  const late = openLate(chains, () => {
    onLate()
    return reloader.again()
  })
  return {
    linkCalls: calls.linkCalls,
    calls,
    reload: (next) => reloader.to(next.plugins),
    async close() {
      late.stop()
      await calls.close()
    },
  }
}
