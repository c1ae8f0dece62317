import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { extname, parse } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Compiled, this module and the child are .js; run from source, both are .ts. */
const program = fileURLToPath(new URL(`./plugin.child${extname(import.meta.url)}`, import.meta.url))
const shell = '/bin/sh'
/** Heap of the plugin's JavaScript, in MiB; beyond it Node ends the process. */
const heapMb = 128
/** All its memory that is not a file's, in KiB: what a heap limit does not count. */
const dataKb = 1_048_576
/** Processor time of one life, in seconds: one that loops when its vault was killed ends, too. */
const cpuSeconds = 3_600

/**
 * Starts the process that runs one plugin: an empty environment, no debugger by signal, a bounded heap, no core dumps, no
 * file that it could write a byte to, and Node's permission model without writing, processes, threads, addons and (from Node 25) the network.
 *
 * @param readable what it may read, as `--allow-fs-read` takes it
 */
export function spawnPlugin(readable: readonly string[]): ChildProcess {
  const known = (flag: string): boolean => process.allowedNodeEnvironmentFlags.has(flag)
  const args = [
    ...['--permission', '--disable-sigusr1'].filter(known),
    ...(known('--permission') ? readable.map((path) => `--allow-fs-read=${path}`) : []),
    `--max-old-space-size=${heapMb}`,
    '--no-warnings',
    program,
  ]
  const { SYSTEMROOT } = process.env
  const options = {
    stdio: ['pipe', 'pipe', 'pipe'] as ['pipe', 'pipe', 'pipe'],
    env: SYSTEMROOT === undefined ? {} : { SYSTEMROOT },
    cwd: parse(process.execPath).root,
    windowsHide: true,
  }
  if (!existsSync(shell)) return spawn(process.execPath, args, options)
  // What preloads code into every Node (a profiler, a test runner) puts NODE_OPTIONS into each child, past an empty env.
  const limits = `ulimit -c 0; ulimit -f 0; ulimit -t ${cpuSeconds}; ulimit -d ${dataKb} 2>/dev/null; unset NODE_OPTIONS; exec "$0" "$@"`
  return guarded(spawn(shell, ['-c', limits, process.execPath, ...args], options))
}

/**
 * Has a shell of its own wait for the end of this process, however that comes, and end the plugin then: one that loops never
 * reads that its input has ended.
 */
function guarded(child: ChildProcess): ChildProcess {
  if (child.pid === undefined) return child
  const guard = spawn(shell, ['-c', 'read -r _; kill -9 "$0"', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    env: {},
    detached: true,
  })
  // Without it everything works but this.
  guard.once('error', () => undefined)
  guard.stdin.on('error', () => undefined)
  guard.unref()
  ;(guard.stdin as unknown as { unref(): void }).unref()
  // First, so that it never sees the end of this process with a number that somebody else has by then.
  child.once('exit', () => guard.kill('SIGKILL'))
  return child
}
