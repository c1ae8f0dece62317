import fc from 'fast-check'
import t from 'tap'

interface Module {
  readonly stillMs: number
  createStillness(placeOf: () => string, now: () => number): () => boolean
}
const { createStillness, stillMs } = (await import('./assets/stillness.js' as string)) as Module

t.test('whatever moves, and whenever it is asked: a click counts after half a second in one place', (t) => {
  const steps = fc.array(fc.record({ wait: fc.nat(400), place: fc.nat(2) }), { maxLength: 40 })
  fc.assert(
    fc.property(steps, (all) => {
      let [nowMs, place, movedMs] = [0, 0, 0]
      const isStill = createStillness(
        () => String(place),
        () => nowMs,
      )
      if (isStill()) return false
      return all.every((step) => {
        nowMs += step.wait
        if (step.place !== place) movedMs = nowMs
        place = step.place
        return isStill() === nowMs - movedMs >= stillMs
      })
    }),
  )
  t.end()
})
