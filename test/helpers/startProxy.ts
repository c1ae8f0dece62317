import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Test } from 'tap'
import { skipOrFail } from './redis.ts'

/** Whether the program is installed; skips visibly where it isn't. */
export function hasProxy(t: Test, program: 'nginx' | 'haproxy'): boolean {
  if (spawnSync(program, ['-v']).status === 0) return true
  skipOrFail(t, `${program} is not installed`)
  return false
}

/**
 * Starts a proxy in the foreground, until the test ends; resolves when it accepts connections.
 * @throws what it wrote, when it ends before that
 */
export async function startProxy(
  t: Test,
  program: 'nginx' | 'haproxy',
  args: readonly string[],
  port: number,
): Promise<void> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const ended = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
  })
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`${program} ended before it listened: ${stderr}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
