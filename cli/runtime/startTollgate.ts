import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import type { LinkCalls } from '../../core/ports/linkCalls.ts'
import type { Log } from '../../core/ports/log.ts'
import { openStack, type Stack } from './open/openStack.ts'
import { does, type Role } from './role.ts'
import { startCalls } from './startCalls.ts'
import { startControlPlane } from './startControlPlane.ts'
import { type DataPlane, startDataPlane } from './startDataPlane.ts'
import { urlOf } from './urlOf.ts'

/** The whole of Tollgate in one process. */
export interface Tollgate {
  /** Where buyers and sellers call, as it listens: `http://127.0.0.1:8080`. That of the admin API where another process does that. */
  readonly gatewayUrl: string
  /** The admin API's own listener, for the operator: metrics and readiness are only there. */
  readonly adminUrl: string
  /** Of the listener for metrics and probes; undefined where none is configured. */
  readonly monitoringUrl: string | undefined
  readonly stack: Stack
  /** Runs the plugins of a newly read configuration from the next call on. What fails leaves the old ones running. */
  reload(next: LoadedConfig<AnyGatewayPlugin>): Promise<void>
  /** `/readyz` answers 503 from now on, so that load balancers send no new calls; everything else goes on. */
  announceStop(): void
  /** Drains and stops everything. */
  close(): Promise<void>
}

export interface StartOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Log
  /** Absent: everything. */
  readonly only?: Role | undefined
}

/** Starts the gateway, the admin API and the background work in this process, or only one of them. */
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
    // Each needs the other: the public listener hands requests over, and tools call links.
    const linkCalls: LinkCalls = {
      async call(request) {
        if (data === undefined) throw new TollgateError('NOT_READY', 'The gateway is starting; call again.')
        return data.linkCalls.call(request)
      },
    }
    const control = await startControlPlane(
      config,
      stack,
      {
        ...{ metrics: stack.ports.metrics, linkCalls },
        callCounts: async () => [{ process: 'gateway', calls: data?.calls.counts() }],
        get generation() {
          return data?.calls.generation
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
    const handedTo = does('admin', only) ? adminUrl : (config.admin.url ?? urlOf(config.admin))
    const plane = await startDataPlane(loaded, stack, handedTo, adminUrl)
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
