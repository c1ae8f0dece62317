import { execFile } from 'node:child_process'
import type { Log } from '../../core/ports/log.ts'

/**
 * Says to systemd that this process is ready, still runs, or stops (sd_notify(3)); does nothing under any other service manager. By the
 * program of systemd, since Node has no datagram sockets of the system's own; a unit with `Type=notify` needs `NotifyAccess=all` for it.
 */
export function notifySystemd(state: 'READY=1' | 'WATCHDOG=1' | 'STOPPING=1', log: Log): void {
  if (process.env['NOTIFY_SOCKET'] === undefined) return
  execFile('systemd-notify', [state], (err) => {
    if (err) log.error({ err }, `systemd was not told: systemd-notify ${state} failed`)
  })
}

/**
 * Tells systemd twice in every `WatchdogSec` of the unit that the event loop runs. systemd kills and restarts a process that it has not
 * heard from for that long.
 */
export function reportToWatchdog(log: Log): void {
  const watchdogUs = Number(process.env['WATCHDOG_USEC'] ?? 0)
  if (watchdogUs > 0) setInterval(notifySystemd, watchdogUs / 2_000, 'WATCHDOG=1', log).unref()
}
