import type { LoadedConfig } from '../../core/config/load.ts'
import { buildGeneration } from '../../core/kernel/generation.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import { createHandOver } from '../../gateway/handOver.ts'
import { createGateway } from '../../gateway/server.ts'
import type { Stack } from './openStack.ts'
import { urlOf } from './urlOf.ts'

/** The public listener with its plugins: one per process. */
export interface DataPlane {
  readonly gatewayUrl: string
  /** Runs the plugins of a newly read configuration from the next call on. What fails leaves the old ones running. */
  reload(next: LoadedConfig<AnyGatewayPlugin>): Promise<void>
  close(): Promise<void>
}

/** How often facilitators that did not answer at the start are asked again. */
const OPEN_MISSING_MS = 30_000

export async function startDataPlane(
  first: LoadedConfig<AnyGatewayPlugin>,
  { ports, chains }: Stack,
  adminUrl: string,
): Promise<DataPlane> {
  const { config } = first
  let current = first
  const generation = await buildGeneration(current.plugins, ports)
  const handOver = createHandOver(() => adminUrl, config.gateway.requestTimeoutMs, ports.log)
  const gateway = createGateway(generation, { ...ports, handOver }, config.gateway)
  const { address: host, port } = await gateway.listen(config.gateway.port, config.gateway.host)
  const reload = async (next: LoadedConfig<AnyGatewayPlugin>) => {
    await gateway.swap(await buildGeneration(next.plugins, ports))
    current = next
  }
  const opening = setInterval(() => void openMissing(), OPEN_MISSING_MS)
  opening.unref()

  /** A link's offers are made when it is compiled: a network that opens later needs new programs. */
  async function openMissing(): Promise<void> {
    if (chains.missing.length === 0 || (await chains.openMissing()).length === 0) return
    await reload(current).catch((err: unknown) =>
      ports.log.error({ err }, 'could not offer a network that opened'),
    )
  }

  return {
    gatewayUrl: urlOf({ host, port }),
    reload,
    async close() {
      clearInterval(opening)
      await gateway.close()
    },
  }
}
