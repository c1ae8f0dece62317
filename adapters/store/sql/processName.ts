import { readFileSync, readlinkSync } from 'node:fs'

/** The scope in which process ids are unique. It is this boot of this machine, and this container. Null if /proc does not tell. */
function room(): string | null {
  try {
    // If /proc belongs to another PID namespace, such as the machine's, the same id is another process there.
    if (readlinkSync('/proc/self') !== String(process.pid)) return null
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return null
  }
}

/** When a process started, in clock ticks since the boot. The time distinguishes two processes that had the same id. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The program's name is in parentheses and may contain any character. The state and 18 numbers follow it.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' && isGone(pid) ? 'ended' : null
  }
}

/** A signal shows that a process exists, even if the system hides other users' processes from /proc. */
function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

const here = room()
const started = startOf(process.pid)

/**
 * The name of this process among all that may have the file open. Null if the operating system is not Linux, because only Linux
 * tells.
 */
export const thisProcess: string | null =
  here === null || started === null ? null : `${here} ${process.pid} ${started}`

/** The process id in a name, in that process's own container. */
export const pidOf = (name: string): number => Number(name.split(' ').at(-2))

/** Whether the process of that name is known to exist, running or stopped. */
export function isThere(name: string): boolean {
  if (here === null || !name.startsWith(`${here} `)) return false
  const [pid, start] = name.slice(here.length + 1).split(' ')
  return startOf(Number(pid)) === start
}

/** Whether the process of that name is known to have ended. A stopped process has not ended. */
export function hasEnded(name: string): boolean {
  if (here === null || !name.startsWith(`${here} `)) return false
  const [pid, start] = name.slice(here.length + 1).split(' ')
  const now = startOf(Number(pid))
  return now !== null && now !== start
}
