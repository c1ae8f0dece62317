import fc from 'fast-check'
import t from 'tap'
import { NonceQueue } from './nonces.ts'

t.test(
  'whoever gives back and in whatever order, each nonce is with one, and no gap is forgotten',
  async () => {
    const step = fc.record({ gives: fc.boolean(), who: fc.nat(), fills: fc.boolean() })
    const run = fc.asyncProperty(fc.nat(50), fc.array(step, { maxLength: 60 }), async (first, steps) => {
      const queue = new NonceQueue(async () => first)
      const held: number[] = []
      const used = new Set<number>()
      for (const { gives, who, fills } of steps) {
        if (fills) for (const nonce of queue.takeGaps()) used.add(nonce)
        if (held.length > 3 || (who % 3 === 0 && held.length > 0)) {
          const [nonce] = held.splice(who % held.length, 1)
          if (gives) queue.release(nonce!)
          else used.add(nonce!)
        } else {
          const taken = await Promise.all([queue.take(), queue.take()])
          for (const nonce of taken) if (used.has(nonce) || held.includes(nonce)) return false
          held.push(...taken)
        }
      }
      for (const nonce of held) queue.release(nonce)
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
    let isUnavailable = true
    const queue = new NonceQueue(async () => {
      if (isUnavailable) throw new Error('away')
      return 3
    })
    await t.rejects(queue.take())
    queue.raiseAbove(6)
    isUnavailable = false
    t.same(await Promise.all([queue.take(), queue.take()]), [7, 8])
  },
)

t.test('what somebody else has used meanwhile is no gap, and is not given out again', async (t) => {
  let first = 3
  const queue = new NonceQueue(async () => first)
  const [a, b] = [await queue.take(), await queue.take()]
  queue.release(a)
  first = 9
  queue.recheck()
  t.equal(await queue.take(), 9)
  queue.release(b)
  t.same(queue.takeGaps(), [])
})

t.test(
  'what somebody else seems to have used is taken back until one is given out above, and no nonce is given out twice',
  async (t) => {
    const queue = new NonceQueue(async () => 3)
    t.equal(await queue.take(), 3)
    queue.suspect(9)
    t.match([queue.next, queue.hasSuspicion], [9, true])
    queue.clearSuspicion()
    t.match([queue.next, queue.hasSuspicion], [4, false])
    queue.suspect(9)
    t.equal(await queue.take(), 9)
    t.equal(queue.hasSuspicion, false)
    queue.clearSuspicion()
    t.equal(await queue.take(), 10)

    const step = fc.record({
      what: fc.constantFrom('take', 'give', 'use', 'suppose', 'nothing', 'raise', 'fill', 'recheck'),
      n: fc.nat(6),
    })
    const run = fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const queue = new NonceQueue(async () => 3)
      const held: number[] = []
      const used = new Set<number>([0, 1, 2])
      for (const { what, n } of steps) {
        const next = queue.next ?? 0
        if (what === 'suppose') queue.suspect(next + n)
        if (what === 'nothing') queue.clearSuspicion()
        if (what === 'recheck') queue.recheck()
        if (what === 'fill') for (const nonce of queue.takeGaps()) used.add(nonce)
        if (what === 'raise') {
          queue.raiseAbove(next + n)
          used.add(next + n)
        }
        if (what === 'take') {
          const nonce = await queue.take()
          if (used.has(nonce) || held.includes(nonce)) return false
          held.push(nonce)
        }
        const [nonce] = what === 'give' || what === 'use' ? held.splice(n % (held.length || 1), 1) : []
        if (nonce === undefined) continue
        if (what === 'give') queue.release(nonce)
        else used.add(nonce)
      }
      return true
    })
    await fc.assert(run, { numRuns: 1_000 })
  },
)
