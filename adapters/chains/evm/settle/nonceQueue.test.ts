import fc from 'fast-check'
import t from 'tap'
import { createNonceQueue } from './nonceQueue.ts'

t.test(
  'whoever gives back and in whatever order, each nonce is with one, and no gap is forgotten',
  async () => {
    const step = fc.record({ gives: fc.boolean(), who: fc.nat(), fills: fc.boolean() })
    const run = fc.asyncProperty(fc.nat(50), fc.array(step, { maxLength: 60 }), async (first, steps) => {
      const queue = createNonceQueue(async () => first)
      const held: number[] = []
      const used = new Set<number>()
      for (const { gives, who, fills } of steps) {
        if (fills) for (const nonce of queue.takeGaps()) used.add(nonce)
        if (held.length > 3 || (who % 3 === 0 && held.length > 0)) {
          const [nonce] = held.splice(who % held.length, 1)
          if (gives) queue.giveBack(nonce!)
          else used.add(nonce!)
        } else {
          const taken = await Promise.all([queue.take(), queue.take()])
          for (const nonce of taken) if (used.has(nonce) || held.includes(nonce)) return false
          held.push(...taken)
        }
      }
      for (const nonce of held) queue.giveBack(nonce)
      for (const nonce of queue.takeGaps()) used.add(nonce)
      const next = queue.next ?? first
      return (
        [...used].sort((a, b) => a - b).every((nonce, i) => nonce === first + i) && next === first + used.size
      )
    })
    await fc.assert(run, { numRuns: 300 })
  },
)

t.test(
  'the chain is asked again after it could not say, and what a former process signed is left alone',
  async (t) => {
    let isAway = true
    const queue = createNonceQueue(async () => {
      if (isAway) throw new Error('away')
      return 3
    })
    await t.rejects(queue.take())
    queue.raiseAbove(6)
    isAway = false
    t.same(await Promise.all([queue.take(), queue.take()]), [7, 8])
  },
)

t.test('what somebody else has used meanwhile is no gap, and is not given out again', async (t) => {
  let first = 3
  const queue = createNonceQueue(async () => first)
  const [a, b] = [await queue.take(), await queue.take()]
  queue.giveBack(a)
  first = 9
  queue.recheck()
  t.equal(await queue.take(), 9)
  queue.giveBack(b)
  t.same(queue.takeGaps(), [])
})
