import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import { freePort } from '../freePort.ts'
import { skipOrFail } from '../redis.ts'

export interface RedisServer {
  readonly url: string
  /** Ends it; the port stays its own. */
  stop(): Promise<void>
  /** Starts it again on the same port, empty. */
  start(): Promise<void>
  /** Freezes it: connections stay open and nothing is answered. */
  freeze(): void
  thaw(): void
}

/** Why there can be none here; undefined where there can. */
export function whyNoRedisServer(): string | undefined {
  return spawnSync('redis-server', ['--version']).status === 0 ? undefined : 'redis-server is not installed'
}

/** Starts a `redis-server` of the test's own on a free port, kept in memory; skips visibly without the program. */
export async function startRedisServer(
  t: Pick<Test, 'teardown' | 'pass' | 'fail'>,
): Promise<RedisServer | undefined> {
  const why = whyNoRedisServer()
  if (why !== undefined) {
    skipOrFail(t, why)
    return undefined
  }
  const port = await freePort()
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-redis-'))
  let child: ChildProcess | undefined

  async function start(): Promise<void> {
    const options = [
      '--port',
      `${port}`,
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
      '--dir',
      dir,
    ]
    child = spawn('redis-server', options, { stdio: ['ignore', 'pipe', 'inherit'] })
    const lines = createInterface({ input: child.stdout! })
    await new Promise<void>((resolve, reject) => {
      lines.on('line', (line) => line.includes('Ready to accept connections') && resolve())
      lines.on('close', () => reject(new Error('redis-server ended before it was ready')))
    })
  }

  async function stop(): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  t.teardown(async () => {
    await stop()
    rmSync(dir, { recursive: true, force: true })
  })
  await start()
  return {
    url: `redis://127.0.0.1:${port}`,
    start,
    stop,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
  }
}
