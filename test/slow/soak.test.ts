import t, { type Test } from 'tap'
import { skipOrFail } from '../helpers/redis.ts'
import { whyNoPostgresServer } from '../helpers/servers/startPostgresServer.ts'
import { whyNoRedisServer } from '../helpers/servers/startRedisServer.ts'
import { type SoakOptions, soakDefaults } from '../soak/options.ts'
import { soak } from '../soak/soak.ts'

// Small forms of what `node test/soak/run.ts` does for as long as one likes. How soon all is well says that program: here the
// machine has other work.

async function bear(t: Test, options: Partial<SoakOptions>): Promise<void> {
  const notified: string[] = []
  const report = await soak(t, { ...soakDefaults, pauseMs: 1_500, ...options }, (text) => notified.push(text))
  const { misses, struck, calls, bought, booked, transfers, expired } = report
  t.comment(
    `${struck.length} strikes, ${calls} calls, ${bought} bought, ${booked} booked, ${transfers} transfers`,
  )
  t.strictSame(misses, [], notified.slice(-3).join('\n'))
  t.equal(bought + expired, calls)
  t.ok(bought > calls / 2, 'most calls were answered')
}

t.test('a gateway that is killed under paid calls on both chains breaks no row', (t) =>
  bear(t, {
    store: 'sqlite',
    gateways: 1,
    chains: ['evm', 'solana'],
    blockMs: 0,
    latencyMs: 0,
    strikes: { kill: 8 },
  }),
)

t.test('two gateways whose services come and go lose nothing and take nothing twice', async (t) => {
  const why = whyNoPostgresServer() ?? whyNoRedisServer()
  if (why !== undefined) return skipOrFail(t, why)
  await bear(t, {
    rate: 10,
    hundreds: 3,
    blockMs: 1_000,
    unavailableMs: 5_000,
    strikes: {
      kill: 3,
      stop: 1,
      'postgres-fast': 1,
      'postgres-immediate': 1,
      'postgres-freeze': 1,
      'redis-stop': 1,
      'redis-freeze': 1,
      'node-away': 1,
      'node-silent': 1,
    },
  })
})
