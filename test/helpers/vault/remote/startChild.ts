import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'

export interface Child {
  readonly url: string
  /** The one line it said when it was ready. */
  readonly fields: Readonly<Record<string, unknown>>
  /** Ends it as a power failure would. */
  kill(): Promise<void>
}

/** Starts a relay, a proxy or a vault's connector as a process of its own; killed with the test. */
export async function startChild(
  t: Test,
  role: 'relay' | 'proxy' | 'vault',
  options: Readonly<Record<string, unknown>>,
): Promise<Child> {
  const file = join(import.meta.dirname, 'child.ts')
  const child: ChildProcess = spawn(process.execPath, [file, role, JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
  }
  t.teardown(kill)
  const lines = createInterface({ input: child.stdout! })
  const fields = await Promise.race([
    once(lines, 'line').then(([line]) => JSON.parse(line as string) as Record<string, unknown>),
    exited.then(() => {
      throw new Error(`the ${role} ended before it was ready`)
    }),
  ])
  return { url: String(fields['url']), fields, kill }
}
