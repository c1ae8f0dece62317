import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'

/**
 * CPU time of a process so far, user and system, all threads, in seconds: the first number of each thread's schedstat is
 * its time on a CPU in nanoseconds (Linux, Documentation/scheduler/sched-stats.rst). Much finer than the clock ticks of
 * `/proc/PID/stat`.
 */
export function cpuSeconds(pid: number): number {
  let ns = 0
  for (const thread of readdirSync(`/proc/${pid}/task`)) ns += threadNs(pid, thread)
  return ns / 1e9
}

function threadNs(pid: number, thread: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ', 1)[0])
  } catch {
    // The thread ended between the listing and the reading.
    return 0
  }
}

/** Where the two sides run: on one CPU each, so that the load never takes time from the server. */
export const serverCpu = 1
export const loadCpu = 0

/** What this machine has of the tools that the benches can do without. */
export interface Machine {
  /** Debian's `wrk`; without it the generator of load/generate.ts makes the load. */
  readonly hasWrk: boolean
  readonly nginx: string | null
  /** Whether processes can be pinned to a CPU: `taskset` and two CPUs. */
  readonly canPin: boolean
}

export function checkSurroundings(): Machine {
  const nginx = ['nginx', '/usr/sbin/nginx'].find((command) => runs(command, ['-v']))
  return {
    hasWrk: runs('wrk', ['-v']),
    nginx: nginx ?? null,
    canPin: availableParallelism() > 1 && runs('taskset', ['-V']),
  }
}

/** wrk answers `-v` with its version and exit code 1: that it ran at all is what counts. */
const runs = (command: string, args: readonly string[]): boolean =>
  spawnSync(command, args, { stdio: 'ignore' }).error === undefined

/** The command line that runs a program on one CPU. */
export function pinned(machine: Machine, cpu: number, command: readonly string[]): readonly string[] {
  return machine.canPin ? ['taskset', '-c', String(cpu), ...command] : command
}
