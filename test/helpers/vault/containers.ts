import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const newContainer = ['--pid', '--mount', '--fork', '--kill-child', '--mount-proc']

/** Whether this machine lets a test make containers; it needs root on Linux. */
export const hasContainers = spawnSync('unshare', [...newContainer, 'true']).status === 0

export interface Container {
  /** Each line that its program has printed, with the time on a clock that never goes back, in ms. */
  readonly lines: readonly { readonly text: string; readonly atMs: number }[]
  /** Stops all of its processes, as a stalled host does. */
  pause(): void
  resume(): void
  kill(): Promise<void>
}

/**
 * Runs a module text in a container: with process ids of its own and a kernel that calls itself by another boot id.
 * @param folder takes the file of the boot id
 */
export function startContainer(folder: string, name: string, program: string): Container {
  const bootId = join(folder, `${name}.boot_id`)
  writeFileSync(bootId, `${name}\n`)
  const script = 'mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"'
  const inside = [process.execPath, '--input-type=module', '-e', program]
  const child = spawn('unshare', [...newContainer, 'sh', '-c', script, 'sh', bootId, ...inside], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines: { text: string; atMs: number }[] = []
  createInterface(child.stdout).on('line', (text) => lines.push({ text, atMs: performance.now() }))
  return {
    lines,
    pause: () => signalFirst(child, 'SIGSTOP'),
    resume: () => signalFirst(child, 'SIGCONT'),
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      signalFirst(child, 'SIGKILL')
      await gone
    },
  }
}

/** Signals the first process of a container; with its end all of the others end. */
function signalFirst(child: ChildProcess, signal: NodeJS.Signals): void {
  spawnSync('pkill', [`-${signal.slice(3)}`, '-P', String(child.pid)])
}
