import t from 'tap'
import { createServerClock } from './connect.ts'

function start() {
  const at = { machineMs: 1_000, serverMs: 1_800_000_000_000 }
  const clock = createServerClock(() => at.machineMs)
  return {
    at,
    clock,
    /** Lets time pass. The server's time then arrives `tookMs` after the server read it. */
    later(ms: number, { tookMs = 2, setByMs = 0 } = {}) {
      at.serverMs += ms + setByMs
      at.machineMs += ms - 1
      const onMessage = clock.startReading()
      const result = at.serverMs
      at.machineMs += 1 + tookMs
      at.serverMs += tookMs
      onMessage(result)
    },
    isSteady() {
      const { window } = clock
      return window !== undefined && window.fromMs <= at.serverMs && at.serverMs <= window.toMs
    },
  }
}

t.test(
  'leases are judged by a clock that was looked at for five seconds, and goes on as time does',
  async (t) => {
    const { later, isSteady, clock } = start()
    t.equal(clock.window, undefined, 'before the server has said anything')
    later(0)
    for (const _ of [1, 2]) {
      t.notOk(isSteady())
      later(2_000)
    }
    later(2_000)
    for (let i = 0; i < 1_000; i++) {
      t.ok(isSteady())
      // The clock runs fast by a thousandth, and each tenth response is late.
      later(2_000, { setByMs: 2, tookMs: i % 10 === 0 ? 2_500 : 5 })
    }
  },
)

t.test('a clock that was set is found out, and judges again once everybody has renewed', async (t) => {
  for (const setByMs of [-3_600_000, -8_000, -4_000, 4_000, 16_000, 3_600_000]) {
    const { at, later, isSteady, clock } = start()
    for (let i = 0; i < 10; i++) later(2_000)
    t.ok(isSteady())
    at.serverMs += setByMs
    t.notOk(isSteady(), `${setByMs} ms: at once, before the server has said so`)
    later(1_000)
    t.equal(clock.window, undefined)
    later(2_000)
    t.equal(clock.window, undefined)
    later(2_000)
    later(2_000)
    t.ok(isSteady(), 'and goes by the new time')
  }
})

t.test('a machine that stood still says nothing about the clock of the server', async (t) => {
  const { later, isSteady } = start()
  for (let i = 0; i < 5; i++) later(2_000)
  later(40_000)
  t.ok(isSteady())
  later(2_000, { tookMs: 30_000 })
  later(2_000)
  t.ok(isSteady())
})
