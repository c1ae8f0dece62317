import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { errorReply } from '../../core/http/replies.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import type { LinkCalls } from '../../core/ports/linkCalls.ts'
import type { Log } from '../../core/ports/log.ts'
import { AdminForwarder, type Forwarder } from '../../gateway/adminForwarder.ts'
import { send } from '../../gateway/httpTransport.ts'
import { Gateway } from '../../gateway/server.ts'
import { createReloader, generationOf } from './createReloader.ts'
import { urlOf } from './gatewayUrl.ts'
import { openLate } from './open/openChains.ts'
import type { Stack } from './open/openStack.ts'

/**
 * The inputs of a data plane, which are the settings that it was started with, and the plugins of this configuration or of a
 * later reload.
 */
type Loaded = Pick<LoadedConfig<AnyGatewayPlugin>, 'config' | 'plugins'>

/** The public listener with its plugins. A process has one. */
export interface DataPlane {
  readonly gatewayUrl: string
  /** Sends calls that do not come through the listener through the same pipelines. */
  readonly linkCalls: LinkCalls
  readonly calls: Gateway['calls']
  /**
   * Runs the plugins of a newly read configuration from the next call on. Calls in progress finish with the
   * old plugins. If the reload fails, the old plugins keep running. Concurrent reloads run one after the
   * other.
   */
  reload(next: Pick<Loaded, 'plugins'>): Promise<void>
  /** Offers networks on which settlement has become possible. */
  openMissing(): Promise<void>
  close(): Promise<void>
}

const aboutItself = /^\/(healthz|readyz)(\?|$)/

/** The probes have a port of their own, so the public port responds to them with 404. */
const withoutProbes = (forwarder: Forwarder, log: Log): Forwarder => ({
  web(req, res, clientIp, requestId) {
    if (!aboutItself.test(req.url!)) return forwarder.web(req, res, clientIp, requestId)
    send(res, errorReply(new TollgateError('NOT_FOUND'), log, requestId).reply, null, requestId)
  },
  upgrade: (...args) => forwarder.upgrade(...args),
  close: () => forwarder.close(),
})

/**
 * @param adminUrl receives every request that is not a call of a link
 * @param ownUrl receives the liveness and readiness probes; `adminUrl` by default
 */
export async function startDataPlane(
  { config, plugins }: Loaded,
  { ports, chains }: Stack,
  adminUrl: string,
  ownUrl = adminUrl,
): Promise<DataPlane> {
  const targetOf = (url: string) => (aboutItself.test(url) ? ownUrl : adminUrl)
  const proxied = new AdminForwarder(targetOf, config.gateway.requestTimeoutMs, ports.log)
  const forwarder = config.monitoring.port === undefined ? proxied : withoutProbes(proxied, ports.log)
  const first = await generationOf(plugins, ports)
  const gateway = new Gateway(first, { ...ports, forwarder }, config.gateway)
  const { address: host, port } = await gateway.listen(config.gateway.port, config.gateway.host)
  const reloader = createReloader(gateway, ports, plugins)
  // A link's offers are created when its pipeline is compiled. When a network opens later, the pipelines are therefore compiled
  // again.
  const late = openLate(chains, ports.log, reloader.again)

  return {
    gatewayUrl: urlOf({ host, port }),
    linkCalls: gateway.linkCalls,
    calls: gateway.calls,
    reload: (next) => reloader.to(next.plugins),
    openMissing: () => late.runNow(),
    async close() {
      void late.stop()
      await gateway.close()
    },
  }
}
