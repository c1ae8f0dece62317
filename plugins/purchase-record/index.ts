import { callerOf } from '../../core/http/callerOf.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { type Exchange, gatewayPlugin, type Reply } from '../../core/plugin/gateway.ts'
import { options } from './options.ts'
import { createViews } from './views.ts'

/** Records what was sold, puts the paid answer together, and counts who saw a link. */
export default gatewayPlugin({
  name: 'purchase-record',
  api: 1,
  options,
  needs: ['payments', 'purchases', 'sealer', 'service', 'log'],
  slots: {
    record: { reads: ['claim', 'settlement'], writes: ['purchase'] },
    respond: { reads: ['answer', 'purchase', 'settlement'] },
    log: { mayRead: ['payment', 'claim', 'answer'] },
  },
  setup({ viewsFlushMs }, { ports: { payments, purchases, sealer, service, log } }) {
    const notes = createPurchaseNotes(sealer, service.metadataField)
    const views = createViews(purchases, log)
    let timer: NodeJS.Timeout | undefined

    async function record(x: Exchange): Promise<undefined> {
      // Served late: the purchase was written when the payment landed.
      if (x.purchase !== null) return
      const paid = x.claim!
      await payments.record(paid)
      x.purchase = notes.of(paid.purchaseId, x.link.responseMode === 'wrap')
    }

    function respond(x: Exchange): Reply | undefined {
      if (x.answer === null || x.answer.tunnel !== null) return
      return paidReply(x.answer, x.answer.mediaType, x.purchase!, x.settlement!.headers, false)
    }

    const seen = (x: Exchange) => views.add(x.link.id, callerOf(x.clientIp), x.startedAtMs)

    return {
      route({ isPaid }) {
        if (!isPaid) return { log: (x) => x.status !== 429 && seen(x) }
        return { record, respond, log: (x) => x.payment === null && x.status === 402 && seen(x) }
      },
      start() {
        timer = setInterval(() => void views.flush(), viewsFlushMs)
        timer.unref()
      },
      async close() {
        clearInterval(timer)
        await views.flush()
      },
    }
  },
})
