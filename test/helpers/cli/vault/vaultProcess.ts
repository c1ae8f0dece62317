import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../../../../cli/main.ts', import.meta.url))

export interface Ran {
  readonly status: number
  readonly stdout: string
  readonly stderr: string
}

/** A folder with a password file, the command line over it, and a vault that can be run and killed. */
export interface VaultBox {
  readonly home: string
  /** Runs `tollgate vault …` to its end. */
  run(args: readonly string[], stdin?: string): Promise<Ran>
  /** The same, which must succeed, and its one line of JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  json(args: readonly string[], stdin?: string): Promise<any>
  /** Runs the vault itself, unlocked, on a free port. */
  serve(more?: readonly string[]): Promise<RunningProcess>
  readonly withPassword: readonly string[]
}

export interface RunningProcess {
  readonly url: string
  /** kill -9, fulfilled when it is gone. */
  kill(): Promise<void>
  /** SIGTERM; its exit status. */
  stop(): Promise<number | null>
}

interface Test {
  teardown(work: () => unknown): unknown
}

export function createVaultBox(t: Test): VaultBox {
  const folder = mkdtempSync(join(tmpdir(), 'vb-'))
  const home = join(folder, 'home')
  const passwordFile = join(folder, 'password')
  writeFileSync(passwordFile, 'correct horse battery staple\n', { mode: 0o600 })
  const running = new Set<ChildProcess>()
  t.teardown(async () => {
    for (const child of running) await end(child, 'SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  const env = { ...process.env, TOLLGATE_VAULT_HOME: home, NO_COLOR: '1' }
  const withPassword = ['--password-file', passwordFile]

  const run: VaultBox['run'] = (args, stdin = '') =>
    new Promise((resolve) => {
      const child = execFile(process.execPath, [main, 'vault', ...args], { env }, (error, stdout, stderr) =>
        resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr }),
      )
      child.stdin?.end(stdin)
    })

  return {
    home,
    withPassword,
    run,
    async json(args, stdin) {
      const { status, stdout, stderr } = await run([...args, '--json'], stdin)
      if (status !== 0) throw new Error(`vault ${args.join(' ')} ended with ${status}: ${stderr}`)
      return JSON.parse(stdout)
    },
    async serve(more = []) {
      const args = [main, 'vault', ...withPassword, '--port', '0', ...more]
      const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
      running.add(child)
      child.once('exit', () => running.delete(child))
      let errors = ''
      child.stderr.on('data', (chunk) => (errors += chunk))
      const lines = createInterface({ input: child.stdout })
      const line = await Promise.race([
        once(lines, 'line').then(([text]) => String(text)),
        once(child, 'exit').then(() => Promise.reject(new Error(`The vault ended: ${errors}`))),
      ])
      return {
        url: JSON.parse(line).url,
        kill: async () => void (await end(child, 'SIGKILL')),
        stop: () => end(child, 'SIGTERM'),
      }
    },
  }
}

async function end(child: ChildProcess, signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) {
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }
  return child.exitCode
}

/** One request of an agent. `null` when the vault was gone before it answered. */
export async function ask(
  url: string,
  token: string,
  path: string,
  body?: object,
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
): Promise<{ status: number; body: any } | null> {
  try {
    const response = await fetch(`${url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', prefer: 'wait=0' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: await response.json() }
  } catch {
    return null
  }
}
