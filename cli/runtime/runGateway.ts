import { execFile } from 'node:child_process'
import cluster from 'node:cluster'
import { watch } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import closeWithGrace from 'close-with-grace'
import type { LoadedConfig } from '../../core/config/loadConfig.ts'
import type { Config } from '../../core/config/schema.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import type { Log } from '../../core/ports/log.ts'
import { startPrimary } from './cluster/primary.ts'
import { runWorker } from './cluster/worker.ts'
import { createLog } from './createLog.ts'
import { limitThreadHeaps } from './heap/limitThreadHeaps.ts'
import { readConfig } from './readConfig.ts'
import { does, type Role } from './role.ts'
import { startTollgate } from './startTollgate.ts'

const SETTLE_MS = 200

/**
 * Calls `changed` on SIGHUP and when the configuration file changes. It watches the file's folder, because editors replace a
 * file instead of writing into it.
 * @returns a function that stops the watch
 */
function watchConfig(file: string, changed: (why: 'signal' | 'file') => void): () => void {
  const path = resolve(file)
  let timer: NodeJS.Timeout | undefined
  const onFile = (_event: string, name: string | null) => {
    if (name !== null && name !== basename(path)) return
    clearTimeout(timer)
    timer = setTimeout(changed, SETTLE_MS, 'file')
  }
  const watcher = watch(dirname(path), { persistent: false }, onFile)
  // Some network drives do not support watching. There only the signal works.
  watcher.on('error', () => watcher.close())
  const onSignal = () => changed('signal')
  process.on('SIGHUP', onSignal)
  return () => {
    clearTimeout(timer)
    watcher.close()
    process.off('SIGHUP', onSignal)
  }
}

/**
 * Reports to systemd that this process is ready, running, or stopping (sd_notify(3)). Under another service manager it does
 * nothing. It runs systemd's program `systemd-notify`, because Node has no Unix datagram sockets. A unit with `Type=notify`
 * therefore needs `NotifyAccess=all`.
 */
function notifySystemd(state: 'READY=1' | 'WATCHDOG=1' | 'STOPPING=1', log: Log): void {
  if (process.env['NOTIFY_SOCKET'] === undefined) return
  execFile('systemd-notify', [state], (err) => {
    if (err) log.error({ err }, `could not notify systemd: systemd-notify ${state} failed`)
  })
}

/**
 * Reports to systemd twice per `WatchdogSec` that the event loop runs. systemd kills and restarts a process that has not
 * reported for `WatchdogSec`.
 */
function reportToWatchdog(log: Log): void {
  const watchdogUs = Number(process.env['WATCHDOG_USEC'] ?? 0)
  if (watchdogUs > 0) setInterval(notifySystemd, watchdogUs / 2_000, 'WATCHDOG=1', log).unref()
}

/** Signals with which a service manager, a terminal and Kubernetes stop a process. */
const stopSignals = ['SIGTERM', 'SIGINT'] as const
type StopSignal = (typeof stopSignals)[number]

interface Stopping {
  /** Called at the first signal, before the delay. */
  announce(signal: StopSignal): void
  /** Called once, after the delay. */
  stop(): void
}

/**
 * Stops in steps. The first signal announces the stop, and the process serves for another `delayMs`. A second signal ends that
 * delay. A signal during the stop itself ends the process at once, with status 1.
 */
function onStopSignals(delayMs: number, { announce, stop }: Stopping): void {
  let state: 'serving' | 'announced' | 'stopping' = 'serving'
  let delay: NodeJS.Timeout | undefined
  const begin = () => {
    clearTimeout(delay)
    state = 'stopping'
    stop()
  }
  const onSignal = (signal: StopSignal) => {
    if (state === 'stopping') process.exit(1)
    if (state === 'announced') return begin()
    state = 'announced'
    announce(signal)
    if (delayMs === 0) begin()
    else delay = setTimeout(begin, delayMs)
  }
  for (const signal of stopSignals) process.on(signal, onSignal)
}

/**
 * Starts everything that a configuration file names, and runs until the process is stopped.
 *
 * @param only the part that this process runs. By default everything
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
  // The handler is installed before the start, because by default SIGHUP would end the process. Reloads run one after the
  // other. A reload reads the file only when it begins, so it also covers requests that arrive until then.
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
    else log.info({ signal }, 'stopping, after running calls finish')
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
        log.info(
          { signal, shutdownDelayMs },
          'stop requested; /readyz responds with 503, and calls are still served',
        )
    },
    stop,
  })
  notifySystemd('READY=1', log)
  reportToWatchdog(log)
  // This line is logged last, because a program that reads it may send a signal at once.
  log.info({ url, admin, publicUrl: loaded.config.publicUrl, ...(only && { only }) }, 'tollgate is running')
}

interface Running {
  readonly gatewayUrl: string
  readonly adminUrl: string
  reload(next: LoadedConfig<AnyGatewayPlugin>): Promise<void>
  announceStop(): void
  close(): Promise<void>
}

/** Sections of the configuration that a reload does not apply, because their parts are opened once, at the start. */
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
    log.info({ why, plugins: next.plugins.length }, 'configuration reloaded')
    const waiting = fixed.filter(
      (name) => JSON.stringify(next.config[name]) !== JSON.stringify(running[name]),
    )
    if (waiting.length > 0)
      log.warn({ sections: waiting }, 'these sections changed and take effect after a restart')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    log.error({ why }, `the new configuration is invalid, so the old configuration stays in use:\n${reason}`)
  }
}
