import { readdirSync, readFileSync } from 'node:fs'

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
