import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuSeconds } from './machine.ts'

const root = new URL('../..', import.meta.url).pathname

/**
 * `cli/bin.js` as a user has it who installed the package: it runs what was built, where in a clone it would run the sources. Built
 * once, into the temporary folder, and gone with this process; those that it starts use the same one. `BENCH_PROGRAM` names
 * another one: that of an installed package.
 */
export function shippedProgram(): string {
  const known = process.env['BENCH_PROGRAM']
  if (known !== undefined) return known
  const build = spawnSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: ['ignore', 2, 2] })
  if (build.status !== 0) throw new Error('The package could not be built; npm says why above.')
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-package-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'cli'))
  for (const part of ['cli/bin.js', 'config', 'dist', 'package.json'])
    cpSync(join(root, part), join(folder, part), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  return (process.env['BENCH_PROGRAM'] = join(folder, 'cli', 'bin.js'))
}

/** A store of an older version is brought up to date first, which takes minutes where it holds a million sales. */
const READY_WITHIN_MS = 1_200_000

/** `tollgate start`, as it is shipped. */
export interface Shipped {
  readonly port: number
  /** From the start of the process until `/readyz` said yes. */
  readonly readyMs: number
  /** Of all its processes. */
  cpu(): number
  memoryMb(): number
  signal(name: NodeJS.Signals): void
  stop(): Promise<void>
}

/**
 * Starts the gateway of a configuration, and waits until it is ready.
 *
 * @param pin puts a command line on one CPU; absent: on any
 */
export async function startShipped(
  config: string,
  port: number,
  env: NodeJS.ProcessEnv,
  pin = (command: readonly string[]) => command,
): Promise<Shipped> {
  const command = pin([process.execPath, shippedProgram(), 'start', '--config', config])
  const startedMs = performance.now()
  const [program, ...args] = command
  const child = spawn(program!, args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...env, PORT: String(port) },
  })
  const ended = once(child, 'exit')
  while (!(await isReady(port))) {
    if (child.exitCode !== null) throw new Error('tollgate start ended by itself; it says why above.')
    if (performance.now() - startedMs > READY_WITHIN_MS) {
      await stop(child, ended)
      throw new Error('tollgate start was not ready within 20 minutes.')
    }
    await sleep(5)
  }
  const readyMs = performance.now() - startedMs
  const processes = () => [child.pid!, ...descendantsOf(child.pid!)]
  return {
    port,
    readyMs,
    cpu: () => processes().reduce((sum, pid) => sum + cpuSeconds(pid), 0),
    memoryMb: () => processes().reduce((sum, pid) => sum + residentMb(pid), 0),
    signal: (name) => void child.kill(name),
    stop: () => stop(child, ended),
  }
}

/** Runs another of its commands to the end. @returns how long it took */
export async function runShipped(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const program = shippedProgram()
  const startedMs = performance.now()
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...env },
  })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`tollgate ${args[0]} ended with ${code}; it says why above.`)
  return performance.now() - startedMs
}

async function stop(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  child.kill('SIGTERM')
  const cut = setTimeout(() => child.kill('SIGKILL'), 10_000)
  await ended
  clearTimeout(cut)
}

function isReady(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    get({ port, host: '127.0.0.1', path: '/readyz', agent: false }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    }).on('error', () => resolve(false))
  })
}

function descendantsOf(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'latin1').split(' ').filter(Boolean).map(Number),
  )
  return children.flatMap((child) => [child, ...descendantsOf(child)])
}

const residentMb = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))![1]) / 1_024
