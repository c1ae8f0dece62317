import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import type { LinkCalls } from '../../core/ports/linkCalls.ts'
import type { Log } from '../../core/ports/log.ts'
import { urlOf } from './gatewayUrl.ts'
import { openStack, type Stack } from './open/openStack.ts'
import { does, type Role } from './role.ts'
import { startCalls } from './startCalls.ts'
import { startControlPlane } from './startControlPlane.ts'
import { type DataPlane, startDataPlane } from './startDataPlane.ts'

/** All of Tollgate in one process. */
export interface Tollgate {
  /**
   * URL of the listener for buyers and sellers, such as `http://127.0.0.1:8080`. If another process serves them, this is the
   * admin API's URL.
   */
  readonly gatewayUrl: string
  /** URL of the admin API's own listener, for the operator. Only this listener has metrics and readiness. */
  readonly adminUrl: string
  /** URL of the listener for metrics and probes. Undefined if none is configured. */
  readonly monitoringUrl: string | undefined
  readonly stack: Stack
  /**
   * Runs the plugins of a newly read configuration from the next call on. If the reload fails, the old
   * plugins keep running.
   */
  reload(next: LoadedConfig<AnyGatewayPlugin>): Promise<void>
  /** From now on, `/readyz` responds with 503, so that load balancers send no new calls. Everything else continues. */
  announceStop(): void
  /** Drains and stops everything. */
  close(): Promise<void>
}

export interface StartOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Log
  /** The part that this process runs. By default it runs everything. */
  readonly only?: Role | undefined
}

/** Starts the gateway, the admin API and the background jobs in this process, or only one of them. */
export async function startTollgate(
  loaded: LoadedConfig<AnyGatewayPlugin>,
  { env, log, only }: StartOptions,
): Promise<Tollgate> {
  const { config } = loaded
  const stack = await openStack(config, { env, log, runsJobs: does('jobs', only) })
  const closers = [() => stack.close()]
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  try {
    let data: Pick<DataPlane, 'linkCalls' | 'calls'> | undefined
    // The data plane and the control plane need each other. The public listener forwards requests to the admin API, and tools
    // call links.
    const linkCalls: LinkCalls = {
      async call(request) {
        if (data === undefined) throw new TollgateError('NOT_READY', 'The gateway is starting. Call again.')
        return data.linkCalls.call(request)
      },
    }
    const control = await startControlPlane(
      config,
      stack,
      {
        metrics: stack.ports.metrics,
        linkCalls,
        callCounts: async () => [{ process: 'gateway', calls: data?.calls.counts() }],
        get generation() {
          return data?.calls.generation
        },
        get isListening() {
          return data !== undefined
        },
      },
      only,
    )
    closers.push(() => control.close())
    const { adminUrl, monitoringUrl, announceStop } = control
    if (!does('gateway', only)) {
      const plane = await startCalls(loaded, stack)
      closers.push(() => plane.close())
      data = plane
      return {
        gatewayUrl: adminUrl,
        adminUrl,
        monitoringUrl,
        stack,
        reload: plane.reload,
        announceStop,
        close,
      }
    }
    const adminTarget = does('admin', only) ? adminUrl : (config.admin.url ?? urlOf(config.admin))
    const plane = await startDataPlane(loaded, stack, adminTarget, adminUrl)
    data = plane
    closers.push(plane.close)
    return {
      gatewayUrl: plane.gatewayUrl,
      adminUrl,
      monitoringUrl,
      stack,
      reload: plane.reload,
      announceStop,
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}
