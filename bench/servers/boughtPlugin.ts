import { randomUUID } from 'node:crypto'
import { paidReply } from '../../core/payments/paidReply.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { type Exchange, gatewayPlugin } from '../../core/plugin/gateway.ts'

/**
 * Stands in for everything that charges: each call to a paid link counts as bought, nothing is checked and nothing is
 * stored. What is left is how a bought answer is put together, and wrapping shows as much as it ever can.
 */
export default gatewayPlugin({
  name: 'bench-bought',
  api: 1,
  options: { type: 'object', additionalProperties: false, properties: {} },
  needs: ['sealer', 'service'],
  slots: {
    pay: { writes: ['payment'] },
    claim: { writes: ['claim'] },
    record: { writes: ['settlement', 'purchase'] },
    respond: { reads: ['answer', 'purchase'] },
  },
  setup(_options, { ports: { sealer, service } }) {
    const notes = createPurchaseNotes(sealer, service.metadataField)
    const payment = {
      identity: { payer: '0x0000000000000000000000000000000000000001' },
    } as Exchange['payment']
    const claim = {} as NonNullable<Exchange['claim']>
    const settlement = { transaction: '0x', headers: ['PAYMENT-RESPONSE', 'e30='] }
    return {
      route({ isPaid }) {
        if (!isPaid) return
        return {
          pay(x) {
            x.payment = payment
          },
          claim(x) {
            x.claim = claim
          },
          record(x) {
            x.settlement = settlement
            x.purchase = notes.of(randomUUID(), x.link.responseMode === 'wrap')
          },
          respond(x) {
            if (x.answer === null) return
            return paidReply(x.answer, x.answer.mediaType, x.purchase!, settlement.headers, false)
          },
        }
      },
    }
  },
})
