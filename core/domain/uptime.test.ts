import fc from 'fast-check'
import t from 'tap'
import { type Checks, suspendedMsOf, uptimeOf } from './uptime.ts'

const checks = (more: Partial<Checks> = {}): Checks => ({
  probes: 0,
  failedProbes: 0,
  calls: 0,
  failedCalls: 0,
  ...more,
})

t.test(
  'health checks say how it was; where there are none, calls; where nobody asked, nothing',
  async (t) => {
    t.equal(uptimeOf(checks({ probes: 4, failedProbes: 1, calls: 9, failedCalls: 9 }), 0, 100), 0.75)
    t.equal(uptimeOf(checks({ calls: 10, failedCalls: 1 }), 0, 100), 0.9)
    t.equal(uptimeOf(checks(), 0, 100), null)
  },
)

t.test('what was suspended was not there, whatever was found beside it', async (t) => {
  t.equal(uptimeOf(checks({ probes: 10 }), 25, 100), 0.75)
  t.equal(uptimeOf(checks({ probes: 10, failedProbes: 5 }), 50, 100), 0.25)
  t.equal(uptimeOf(checks(), 100, 100), 0)
  t.equal(uptimeOf(checks({ probes: 1 }), 0, 0), 1, 'a moment that has just begun')
})

t.test('an uptime is a share, whatever was counted', async () => {
  const any = fc.integer({ min: -5, max: 1_000_000 })
  fc.assert(
    fc.property(any, any, any, any, any, any, (probes, failedProbes, calls, failedCalls, down, all) => {
      const uptime = uptimeOf({ probes, failedProbes, calls, failedCalls }, Math.max(0, down), all)
      return uptime === null || (uptime >= 0 && uptime <= 1)
    }),
  )
})

t.test('suspensions are told by their ends, and the present one has none yet', async (t) => {
  const off = (atMs: number) => ({ atMs, kind: 'suspended' }) as const
  const on = (atMs: number) => ({ atMs, kind: 're-enabled' }) as const
  t.equal(suspendedMsOf([off(10), on(30), off(50), on(55)], null, 0, 100), 25)
  t.equal(suspendedMsOf([off(10), on(30)], null, 20, 25), 5, 'as far as it lies between the two')
  t.equal(suspendedMsOf([on(30)], null, 10, 100), 20, 'one that began before')
  t.equal(suspendedMsOf([off(60)], { sinceMs: 60 }, 0, 100), 40)
  t.equal(suspendedMsOf([], { sinceMs: -500 }, 0, 100), 100, 'longer ago than anything is kept')
  t.equal(suspendedMsOf([off(10)], null, 0, 100), 0, 'nobody knows when it ended: it is not held against it')
  t.equal(suspendedMsOf([off(10), on(20), on(40)], null, 0, 100), 10)
})
