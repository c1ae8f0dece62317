import { execFile } from 'node:child_process'
import type { Log } from '../../core/ports/log.ts'

/**
 * Says to systemd that this process is ready, or stops (sd_notify(3)); does nothing under any other service manager. By the program
 * of systemd, since Node has no datagram sockets of the system's own; a unit with `Type=notify` needs `NotifyAccess=all` for it.
 */
export function notifySystemd(state: 'READY=1' | 'STOPPING=1', log: Log): void {
  if (process.env['NOTIFY_SOCKET'] === undefined) return
  execFile('systemd-notify', [state], (err) => {
    if (err) log.error({ err }, `systemd was not told: systemd-notify ${state} failed`)
  })
}
