import t from 'tap'
import { boundedQueue } from './boundedQueue.ts'

t.test('work that waits goes on in its order, and what is too far behind is refused', async (t) => {
  const inTurn = boundedQueue(2, 200, () => new Error('too many'))
  const begun: number[] = []
  const gates = Array.from({ length: 210 }, () => Promise.withResolvers<number>())
  const asked = gates.map(({ promise }, i) =>
    inTurn(() => {
      begun.push(i)
      return promise
    }),
  )
  const ends = Promise.allSettled(asked)
  await t.rejects(asked[202]!, /too many/)
  t.strictSame(begun, [0, 1])
  gates[1]!.reject(new Error('not this one'))
  await t.rejects(asked[1]!, /not this one/)
  gates[0]!.resolve(0)
  t.equal(await asked[0], 0)
  for (const [i, { resolve }] of gates.entries()) resolve(i)
  const served = (await ends).filter(({ status }) => status === 'fulfilled').length
  t.equal(served, 201)
  t.strictSame(
    begun,
    Array.from({ length: 202 }, (_, i) => i),
  )
})
