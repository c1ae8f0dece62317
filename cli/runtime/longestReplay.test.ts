import t from 'tap'
import type { Generation } from '../../core/kernel/generation.ts'
import { longestReplayMs } from './startJobs.ts'

const running = (...entries: readonly [name: string, options: unknown][]) =>
  ({
    plugins: entries.map(([name, options]) => ({ plugin: { name }, options })),
  }) as unknown as Pick<Generation, 'plugins'>

t.test('delivered answers are kept for the longest window that a link has', async (t) => {
  const [short, long] = [{ replayWindowMs: 1_000 }, { replayWindowMs: 3_600_000 }]
  const other = { replayWindowMs: 7_200_000 }
  t.equal(
    longestReplayMs(running(['replay-guard', short], ['other', other], ['replay-guard', long])),
    3_600_000,
  )
  t.equal(longestReplayMs(running(['replay-guard', { replayWindowMs: 0 }])), 0)
})

t.test(
  'without a replay-guard it is its default, and while the gateway starts the longest there can be',
  async (t) => {
    t.equal(longestReplayMs(running(['x402', {}])), 900_000)
    t.equal(longestReplayMs(running(['replay-guard', undefined])), 900_000)
    t.equal(longestReplayMs(undefined), 86_400_000)
  },
)
