import fc from 'fast-check'
import t from 'tap'
import { createNonceQueue } from './nonceQueue.ts'

t.test('whatever fails, the nonces that are used have no gap and no double', async () => {
  const outcome = fc.constantFrom('used', 'not used', 'throws')
  const run = fc.asyncProperty(fc.nat(50), fc.array(outcome, { maxLength: 30 }), async (first, outcomes) => {
    const queue = createNonceQueue(async () => first)
    const used: number[] = []
    let inside = 0
    await Promise.allSettled(
      outcomes.map((outcome) =>
        queue.take(async (nonce) => {
          inside++
          await new Promise(setImmediate)
          if (inside !== 1) throw new Error('two at once')
          inside--
          if (outcome === 'throws') throw new Error('disk full')
          if (outcome === 'used') used.push(nonce)
          return outcome === 'used'
        }),
      ),
    )
    return inside === 0 && used.every((nonce, i) => nonce === first + i)
  })
  await fc.assert(run, { numRuns: 100 })
})

t.test(
  'the chain is asked again after it could not say, and what a former process signed is left alone',
  async (t) => {
    let isAway = true
    const queue = createNonceQueue(async () => {
      if (isAway) throw new Error('away')
      return 3
    })
    await t.rejects(queue.take(async () => true))
    queue.raiseAbove(6)
    isAway = false
    const taken: number[] = []
    const take = () => queue.take(async (nonce) => taken.push(nonce) > 0)
    await take()
    await take()
    t.same(taken, [7, 8])
  },
)
