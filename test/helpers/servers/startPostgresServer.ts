import { type ExecFileSyncOptions, execFile, execFileSync } from 'node:child_process'
import { chownSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { freePort } from '../freePort.ts'

/** A PostgreSQL that a test may stop, on a port of its own. */
export interface PostgresServer {
  readonly url: string
  /** As an operator does (`fast`), and as a machine that loses its power does (`immediate`). */
  stop(mode: 'fast' | 'immediate'): Promise<void>
  /** Resolves when it takes connections. */
  start(): Promise<void>
  /** Freezes it and all its processes: connections stay open and nothing is answered. */
  freeze(): void
  thaw(): void
}

const run = promisify(execFile)

/** Why there can be none here; undefined where there can. */
export function whyNoPostgresServer(): string | undefined {
  try {
    execFileSync(join(programs(), 'initdb'), ['--version'])
    if (isRoot) accountOf('postgres')
    return undefined
  } catch (error) {
    return `no programs of PostgreSQL, or no user that may run them: ${(error as Error).message}`
  }
}

/**
 * Makes a cluster in a folder of its own and starts it. The server refuses to run as root: there it runs as `postgres`.
 *
 * @param given.dir the folder for its data, such as a small disk; default: one of its own
 */
export async function startPostgresServer(
  t: Pick<Test, 'teardown'>,
  given: { readonly dir?: string } = {},
): Promise<PostgresServer> {
  const bin = programs()
  const dir = given.dir ?? mkdtempSync(join(tmpdir(), 'tollgate-postgres-'))
  const account = isRoot ? accountOf('postgres') : undefined
  if (account !== undefined) chownSync(dir, account.uid, account.gid)
  const as = { ...account, cwd: dir } satisfies ExecFileSyncOptions
  const data = join(dir, 'data')
  const port = await freePort()
  const settings = `-p ${port} -h 127.0.0.1 -k ${dir} -c max_connections=100 -c max_wal_size=64MB`
  const control = (...args: string[]) => run(join(bin, 'pg_ctl'), ['-D', data, '-w', ...args], as)
  const start = () => control('-l', join(dir, 'log'), '-o', settings, 'start').then(() => undefined)
  /** Backends are processes of their own, and would answer while only the first one is frozen. */
  const signalAll = (signal: 'SIGSTOP' | 'SIGCONT') => {
    const first = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])
    const children = readFileSync(`/proc/${first}/task/${first}/children`, 'utf8').trim().split(' ')
    for (const pid of [first, ...children.map(Number)]) {
      try {
        process.kill(pid, signal)
      } catch {
        // One that has ended meanwhile.
      }
    }
  }

  await run(join(bin, 'initdb'), ['-D', data, '-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--no-sync'], as)
  await start()
  t.teardown(async () => {
    try {
      signalAll('SIGCONT')
    } catch {
      // It is stopped.
    }
    await control('-m', 'immediate', 'stop').catch(() => undefined)
    rmSync(dir, { recursive: true, force: true })
  })
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    stop: (mode) => control('-m', mode, 'stop').then(() => undefined),
    start,
    freeze: () => signalAll('SIGSTOP'),
    thaw: () => signalAll('SIGCONT'),
  }
}

const isRoot = process.getuid?.() === 0

/** Debian keeps the server's programs out of the PATH. */
function programs(): string {
  return execFileSync('pg_config', ['--bindir'], { encoding: 'utf8' }).trim()
}

function accountOf(name: string): { readonly uid: number; readonly gid: number } {
  const id = (what: string) => Number(execFileSync('id', [what, name], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}
