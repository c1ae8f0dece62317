import fc from 'fast-check'
import t from 'tap'
import { createStillness, STILL_MS } from './app/approvals/stillness.ts'

t.test('whatever moves, and whenever it is asked: a click counts after half a second in one place', (t) => {
  const steps = fc.array(fc.record({ wait: fc.nat(400), place: fc.nat(2) }), { maxLength: 40 })
  fc.assert(
    fc.property(steps, (all) => {
      let [nowMs, element, movedMs] = [0, 0, 0]
      const isStill = createStillness(
        () => String(element),
        () => nowMs,
      )
      if (isStill()) return false
      return all.every((step) => {
        nowMs += step.wait
        if (step.place !== element) movedMs = nowMs
        element = step.place
        return isStill() === nowMs - movedMs >= STILL_MS
      })
    }),
  )
  t.end()
})
