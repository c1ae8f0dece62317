import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { errorReply } from '../../core/http/errorReply.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import type { LinkCalls } from '../../core/ports/linkCalls.ts'
import type { Log } from '../../core/ports/log.ts'
import { createHandOver, type HandOver } from '../../gateway/handOver.ts'
import { send } from '../../gateway/httpDoor.ts'
import { createGateway, type Gateway } from '../../gateway/server.ts'
import { createReloader, generationOf } from './createReloader.ts'
import { openLate } from './open/openLate.ts'
import type { Stack } from './open/openStack.ts'
import { urlOf } from './urlOf.ts'

/** What a data plane is made of: a configuration's own settings, and the plugins of this or of a later reading. */
type Loaded = Pick<LoadedConfig<AnyGatewayPlugin>, 'config' | 'plugins'>

/** The public listener with its plugins: one per process. */
export interface DataPlane {
  readonly gatewayUrl: string
  /** Calls that come by other ways, through the same programs. */
  readonly linkCalls: LinkCalls
  readonly calls: Gateway['calls']
  /**
   * Runs the plugins of a newly read configuration from the next call on; calls under way end with the old ones. What
   * fails leaves the old ones running. Reloads that meet are made one after the other.
   */
  reload(next: Pick<Loaded, 'plugins'>): Promise<void>
  /** Offers networks that can be settled on by now. */
  openMissing(): Promise<void>
  close(): Promise<void>
}

/** What is asked about the process itself. */
const aboutItself = /^\/(healthz|readyz)(\?|$)/

/** The probes have a port of their own: the public one does not know them. */
const withoutProbes = (handOver: HandOver, log: Log): HandOver => ({
  ...handOver,
  web(req, res, clientIp, requestId) {
    if (!aboutItself.test(req.url!)) return handOver.web(req, res, clientIp, requestId)
    send(res, errorReply(new TollgateError('NOT_FOUND'), log, requestId).reply, null, requestId)
  },
})

/**
 * @param adminUrl where everything is handed to that is no link
 * @param ownUrl where it is answered whether this process lives and can work; absent: where the rest is
 */
export async function startDataPlane(
  { config, plugins }: Loaded,
  { ports, chains }: Stack,
  adminUrl: string,
  ownUrl = adminUrl,
): Promise<DataPlane> {
  const targetOf = (url: string) => (aboutItself.test(url) ? ownUrl : adminUrl)
  const proxied = createHandOver(targetOf, config.gateway.requestTimeoutMs, ports.log)
  const handOver = config.monitoring.port === undefined ? proxied : withoutProbes(proxied, ports.log)
  const first = await generationOf(plugins, ports)
  const gateway = createGateway(first, { ...ports, handOver }, config.gateway)
  const { address: host, port } = await gateway.listen(config.gateway.port, config.gateway.host)
  const reloader = createReloader(gateway, ports, plugins)
  // A link's offers are made when it is compiled: a network that opens later needs new programs.
  const late = openLate(chains, reloader.again)

  return {
    gatewayUrl: urlOf({ host, port }),
    linkCalls: gateway.linkCalls,
    calls: gateway.calls,
    reload: (next) => reloader.to(next.plugins),
    openMissing: late.now,
    async close() {
      late.stop()
      await gateway.close()
    },
  }
}
