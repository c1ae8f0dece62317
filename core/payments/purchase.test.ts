import fc from 'fast-check'
import t from 'tap'
import { newPurchaseId } from './purchase.ts'

t.test('a purchase id is a UUID of version 7 that holds its time and is never said twice', async (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 48 - 1 }), (nowMs) => {
      const id = newPurchaseId(nowMs)
      const match = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.exec(id)
      return (
        match !== null &&
        Number.parseInt(`${match[1]}${match[2]}`, 16) === nowMs &&
        id !== newPurchaseId(nowMs)
      )
    }),
  )
  t.ok(newPurchaseId(1) < newPurchaseId(2), 'a later one sorts behind an earlier one')
})
