import { TrafficCounts } from '../../core/figures/trafficCounts.ts'
import { callerOf } from '../../core/http/callerOf.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { type Exchange, gatewayPlugin, type Reply, type RouteHooks } from '../../core/plugin/gateway.ts'
import { options } from './options.ts'
import { createViews } from './views.ts'

/** Records what was sold, puts the paid answer together, and counts 402 answers and who saw a link. */
export default gatewayPlugin({
  name: 'purchase-record',
  api: 1,
  options,
  needs: ['payments', 'figures', 'sealer', 'service', 'log'],
  slots: {
    record: { reads: ['claim', 'settlement'], writes: ['purchase'] },
    respond: { reads: ['answer', 'purchase', 'settlement'] },
    log: { mayRead: ['payment', 'claim', 'answer'] },
  },
  setup({ viewsFlushMs }, { ports: { payments, figures, sealer, service, log } }) {
    const notes = createPurchaseNotes(sealer, service.metadataField)
    const counts = new TrafficCounts(figures, log)
    const views = createViews()
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

    const isNewTo = ({ link: { id }, clientIp, startedAtMs }: Exchange): boolean =>
      views.isNew(id, callerOf(clientIp), startedAtMs)

    function see(x: Exchange): void {
      if (x.status !== 429 && isNewTo(x)) counts.add(x.link.id, 'views', x.startedAtMs)
    }

    function seePrice(x: Exchange): void {
      if (x.payment !== null || x.status !== 402) return
      const counted = counts.of(x.link.id, x.startedAtMs)
      counted.challenges++
      if (isNewTo(x)) counted.views++
    }

    const paid: RouteHooks = { record, respond, log: seePrice }
    const free: RouteHooks = { log: see }

    return {
      route: ({ isPaid }) => (isPaid ? paid : free),
      start() {
        timer = counts.flushEvery(viewsFlushMs)
      },
      async close() {
        clearInterval(timer)
        await counts.flush()
      },
    }
  },
})
