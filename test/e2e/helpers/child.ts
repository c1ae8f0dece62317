import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { ConfigFile } from './config.ts'

const bin = fileURLToPath(new URL('../../../cli/bin.js', import.meta.url))

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** `tollgate` as a process of its own. */
export interface Child {
  readonly pid: number
  signal(name: NodeJS.Signals): void
  readonly exited: Promise<Exit>
  /** What it wrote so far. */
  stdout(): string
  stderr(): string
  /** Resolves when its output has held the text so often; rejects when it ends before. */
  waitForOutput(text: string, times?: number): Promise<void>
}

/**
 * Runs `tollgate` with these arguments and nothing in its environment but what is given.
 *
 * @param flags of node
 */
export function runTollgate(
  t: Pick<Test, 'teardown'>,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  flags: readonly string[] = [],
): Child {
  const child = spawn(process.execPath, [...flags, bin, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const exited = once(child, 'close').then(([code, signal]) => ({ code, signal, stdout, stderr }) as Exit)
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return {
    pid: child.pid!,
    signal: (name) => void child.kill(name),
    exited,
    stdout: () => stdout,
    stderr: () => stderr,
    async waitForOutput(text, times = 1) {
      let isOver = false
      void exited.then(() => {
        isOver = true
      })
      while ((stdout + stderr).split(text).length <= times) {
        if (isOver) throw new Error(`tollgate ended before it said "${text}":\n${stdout}${stderr}`)
        await Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data'), exited])
      }
    },
  }
}

/** `tollgate start` with a configuration; resolves when it listens. The configuration's log level has to be info. */
export async function startGateway(
  t: Pick<Test, 'teardown'>,
  config: Pick<ConfigFile, 'file'>,
  env: Readonly<Record<string, string>>,
): Promise<Child> {
  const child = runTollgate(t, ['start', '--config', config.file], env)
  await child.waitForOutput('tollgate is running')
  return child
}
