import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import type { Test } from 'tap'

export interface TestRedis {
  readonly url: string
  /** A prefix of this test's own; what is under it is deleted afterwards. */
  readonly keyPrefix: string
  readonly client: Redis
}

/**
 * Connects to the Redis of `TEST_REDIS_URL` (default: `redis://127.0.0.1:6379`). Without one the test is skipped, visibly,
 * and fails where `CI` is set: there a missing service is a mistake.
 */
export async function connectTestRedis(t: Test): Promise<TestRedis | undefined> {
  const url = process.env['TEST_REDIS_URL'] ?? 'redis://127.0.0.1:6379'
  const client = new Redis(url, { lazyConnect: true, connectTimeout: 1_000, retryStrategy: () => null })
  client.on('error', () => {})
  try {
    await client.connect()
  } catch {
    client.disconnect()
    skipOrFail(t, 'no Redis answers; start one or set TEST_REDIS_URL')
    return undefined
  }
  const keyPrefix = `tollgate-test:${randomUUID()}:`
  t.teardown(async () => {
    const keys = await client.keys(`${keyPrefix}*`)
    if (keys.length > 0) await client.del(keys)
    client.disconnect()
  })
  return { url, keyPrefix, client }
}

/** Skips where a developer lacks a service, fails where CI does. */
export function skipOrFail(t: Pick<Test, 'pass' | 'fail'>, reason: string): void {
  if (process.env['CI'] === 'true') t.fail(reason)
  else t.pass(reason, { skip: reason })
}
