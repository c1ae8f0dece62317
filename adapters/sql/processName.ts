import { readFileSync, readlinkSync } from 'node:fs'

/** Where numbers of processes mean what they mean here: this start of this machine, and this container of it. */
function room(): string | null {
  try {
    // A /proc of another container, such as the machine's, tells of other processes by the same numbers.
    if (readlinkSync('/proc/self') !== String(process.pid)) return null
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return null
  }
}

/** When a process started, in ticks since the machine did: a number that is given out again is another process. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name of the program stands in parentheses and may hold anything; what follows is state, then 18 numbers.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' && isGone(pid) ? 'ended' : null
  }
}

/** A system may hide other users' processes from /proc; it does not deny that they are there. */
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

/** This process among all that may have the file open; null where the system does not say (it is Linux that does). */
export const thisProcess: string | null =
  here === null || started === null ? null : `${here} ${process.pid} ${started}`

/** The number of the process of that name, in its own container. */
export const pidOf = (name: string): number => Number(name.split(' ').at(-2))

/** Whether the process of that name is known to be there, working or standing still. */
export function isThere(name: string): boolean {
  if (here === null || !name.startsWith(`${here} `)) return false
  const [pid, start] = name.slice(here.length + 1).split(' ')
  return startOf(Number(pid)) === start
}

/** Whether the process of that name is known to be gone. One that stands still is not. */
export function hasEnded(name: string): boolean {
  if (here === null || !name.startsWith(`${here} `)) return false
  const [pid, start] = name.slice(here.length + 1).split(' ')
  const now = startOf(Number(pid))
  return now !== null && now !== start
}
