import t from 'tap'
import { roundUp, ticksOf } from './charts.ts'

t.test(
  'the top of an axis is a round value at or above the largest, at most 2.5 times as large',
  async (t) => {
    for (const value of [0.000001, 0.01, 0.03, 0.1, 0.2, 1, 1.01, 4.99, 5, 7, 10, 99, 1234, 5e9]) {
      const top = roundUp(value)
      t.ok(top >= value && top <= value * 2.5, `${value} → ${top}`)
      t.match(top.toExponential(), /^[125]e/, `${top} is round`)
    }
    t.equal(roundUp(0), 1)
  },
)

t.test('ticks keep the first and the last label, and are never more than four', async (t) => {
  for (const count of [1, 2, 4, 5, 7, 24, 30]) {
    const labels = Array.from({ length: count }, (_, i) => String(i))
    const ticks = ticksOf(labels)
    t.equal(ticks[0], labels[0])
    t.equal(ticks.at(-1), labels.at(-1))
    t.equal(new Set(ticks).size, Math.min(4, count))
  }
  t.strictSame(ticksOf([]), [])
})
