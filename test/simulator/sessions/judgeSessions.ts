import assert from 'node:assert/strict'
import { chargedStates, type PaymentRecord } from '../../../core/domain/payment.ts'
import type { World } from '../world.ts'

/** A transfer counts once; a session is confirmed by one purchase of its own, and a refund is due for every other payment. */
export async function judgeSessions({ store, sessions, sent, chain }: World): Promise<void> {
  const { landed } = chain.view()
  const records: PaymentRecord[] = []
  for (const key of landed.keys()) {
    const record = await store.ledger.find(key)
    if (record?.sessionId != null) records.push(record)
  }
  for (const { key, transaction, isExact } of sent) {
    const record = await store.ledger.find(key)
    if (!isExact) assert.equal(record, undefined, `${transaction} is of another amount, and pays nothing`)
    else assert.ok(record !== undefined, `${transaction} was named, and is forgotten`)
  }
  for (const { id } of sessions) {
    const { state, paid, paymentRow } = (await store.sessions.find(id))!
    const own = records.filter(({ sessionId }) => sessionId === id)
    const paying = own.filter(({ row }) => row === paymentRow)
    for (const record of own) {
      assert.ok(
        (chargedStates as readonly string[]).includes(record.state),
        `${record.key} is ${record.state}`,
      )
      const isPaying = state === 'confirmed' && record.row === paymentRow
      if (isPaying) assert.equal(record.purchaseId, paid?.purchaseId, `session ${id}: its purchase`)
      else
        assert.notEqual(
          record.state,
          'delivered',
          `${record.key} was paid for session ${id}, and is not owed back`,
        )
    }
    // What has left the chain for good is told so; the session stays what it was.
    const isPaidStill = paid?.status !== 'reorged'
    if (state === 'confirmed')
      assert.equal(paying.length, isPaidStill ? 1 : 0, `session ${id} is confirmed, and nothing pays it`)
    else assert.equal(paid, null, `session ${id} is ${state}, and has a purchase`)
    if (state === 'open') assert.equal(paymentRow, null, `session ${id} waits for what is over`)
  }
}
