import t from 'tap'
import { createMemoryCounters } from '../../adapters/memory/counters.ts'
import { createRedisCounters } from '../../adapters/redis/counters.ts'
import type { Counters } from '../../core/ports/counters.ts'
import { connectTestRedis } from '../helpers/redis.ts'
import { countersContract } from './counters.contract.ts'

/** Stands where the fallback would, so that an answer that is not from Redis fails the test. */
const unexpected: Counters = {
  take() {
    throw new Error('the fallback was asked')
  },
  async close() {},
}

t.test('counters in memory', (t) =>
  countersContract(t, async () => {
    let nowMs = Date.now()
    const counters = createMemoryCounters({ clock: { now: () => nowMs } })
    const advance = async (ms: number) => void (nowMs += ms)
    return { counters, peer: counters, now: () => nowMs, advance }
  }),
)

t.test('counters in Redis', async (t) => {
  const redis = await connectTestRedis(t)
  if (redis === undefined) return
  let starts = 0

  await countersContract(t, async (t) => {
    const keyPrefix = `${redis.keyPrefix}${starts++}:`
    let passedMs = 0
    const clock = { now: () => Date.now() + passedMs }
    const create = () =>
      createRedisCounters({ url: redis.url, keyPrefix, fallback: unexpected, timeoutMs: 10_000, clock })
    const [counters, peer] = [create(), create()]
    t.teardown(() => Promise.all([counters.close(), peer.close()]))
    await Promise.all([counters.connected(), peer.connected()])

    // Redis keeps the time by itself: its keys are made to end sooner.
    async function advance(ms: number): Promise<void> {
      passedMs += ms
      for (const key of await redis!.client.keys(`${keyPrefix}*`)) {
        await redis!.client.pexpire(key, (await redis!.client.pttl(key)) - ms)
      }
    }
    return { counters, peer, now: clock.now, advance }
  })
})
