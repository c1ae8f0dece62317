import cluster from 'node:cluster'
import closeWithGrace from 'close-with-grace'
import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import type { Config } from '../../core/config/types.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import type { Log } from '../../core/ports/log.ts'
import { startPrimary } from './cluster/primary.ts'
import { runWorker } from './cluster/worker.ts'
import { createLog } from './createLog.ts'
import { limitThreadHeaps } from './heap/limitThreadHeaps.ts'
import { notifySystemd, reportToWatchdog } from './notifySystemd.ts'
import { readConfig } from './readConfig.ts'
import { does, type Role } from './role.ts'
import { startTollgate } from './startTollgate.ts'
import { onStopSignals, type StopSignal, stopSignals } from './stopSignals.ts'
import { watchConfig } from './watchConfig.ts'

/**
 * Starts everything that a configuration file names, and keeps it running until the process is told to stop.
 *
 * @param only what this process does of it; absent: everything
 */
export async function runGateway(file: string, only?: Role): Promise<void> {
  limitThreadHeaps()
  if (cluster.isWorker) return runWorker(file, process.env)
  const loaded = await readConfig(file, process.env)
  const log = createLog(loaded.config.log)
  const context = { env: process.env, log, only }
  const started = Promise.withResolvers<Running>()
  let isReloadDue = false
  let line: Promise<void> = started.promise.then(() => undefined)
  // SIGHUP would stop the process by default, and may come while it starts. Reloads are made one after the other, and one
  // is enough for all that are asked for before it begins: it reads the file as it is then.
  const unwatch = watchConfig(file, (why) => {
    if (isReloadDue) return
    isReloadDue = true
    line = line.then(async () => {
      isReloadDue = false
      await reload(file, await started.promise, loaded.config, log, why)
    })
  })
  for (const warning of loaded.warnings) log.warn({ line: warning.line }, warning.message)
  const running =
    loaded.config.gateway.workers > 1 && does('gateway', only)
      ? await startPrimary(loaded, context)
      : await startTollgate(loaded, context)
  const { gatewayUrl: url, adminUrl: admin } = running
  started.resolve(running)
  const { drainTimeoutMs, shutdownDelayMs } = loaded.config.gateway
  const delay = drainTimeoutMs + 5_000
  let signal: StopSignal | undefined
  const skip = ['SIGHUP' as const, ...stopSignals]
  const { close: stop } = closeWithGrace({ delay, logger: false, skip }, async ({ err }) => {
    if (err) log.error({ err }, 'stopping after an error')
    else log.info({ signal }, 'stopping; calls under way may end')
    unwatch()
    await running.close()
    log.info({ signal }, 'stopped')
  })
  onStopSignals(shutdownDelayMs, {
    announce(first) {
      signal = first
      running.announceStop()
      notifySystemd('STOPPING=1', log)
      if (shutdownDelayMs > 0)
        log.info({ signal, shutdownDelayMs }, 'told to stop; /readyz answers 503, and calls are still served')
    },
    stop,
  })
  notifySystemd('READY=1', log)
  reportToWatchdog(log)
  // Last: whoever reads this may send a signal at once.
  log.info({ url, admin, publicUrl: loaded.config.publicUrl, ...(only && { only }) }, 'tollgate is running')
}

interface Running {
  readonly gatewayUrl: string
  readonly adminUrl: string
  reload(next: LoadedConfig<AnyGatewayPlugin>): Promise<void>
  announceStop(): void
  close(): Promise<void>
}

/** What a reload does not change: it was opened once and is shared by all generations. */
const fixed = [
  'publicUrl',
  'serviceName',
  'metadataField',
  'gateway',
  'admin',
  'monitoring',
  'storage',
  'secretFile',
  'counters',
  'networks',
  'assets',
  'egress',
  'log',
] as const satisfies readonly (keyof Config)[]

async function reload(
  file: string,
  tollgate: Running,
  running: Config,
  log: Log,
  why: string,
): Promise<void> {
  try {
    const next = await readConfig(file, process.env)
    await tollgate.reload(next)
    log.info({ why, plugins: next.plugins.length }, 'configuration read again')
    const waiting = fixed.filter(
      (name) => JSON.stringify(next.config[name]) !== JSON.stringify(running[name]),
    )
    if (waiting.length > 0)
      log.warn({ sections: waiting }, 'these sections changed and take effect after a restart')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    log.error({ why }, `the new configuration was refused, the old one goes on:\n${reason}`)
  }
}
