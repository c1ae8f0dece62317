import { type Counted, TrafficCounts } from '../../core/figures/trafficCounts.ts'
import { callerOf } from '../../core/http/callerAddress.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { type Exchange, gatewayPlugin, type Reply, type RouteHooks } from '../../core/plugin/gateway.ts'
import { options } from './options.ts'
import { SeenLink, Views } from './views.ts'

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
    const views = new Views()
    let timer: NodeJS.Timeout | undefined

    /** How often a link was seen, and its price asked: what is counted stays with the link, so that a call need not look for it. */
    class Seen extends SeenLink {
      readonly #linkId: string
      #counted: Counted | null = null

      constructor(linkId: string) {
        super(views, linkId)
        this.#linkId = linkId
      }

      protected see({ clientIp, startedAtMs }: Exchange, challenges: 0 | 1): void {
        const isNew = this.isNew(callerOf(clientIp), startedAtMs)
        if (!isNew && challenges === 0) return
        const counted = counts.of(this.#linkId, startedAtMs, this.#counted)
        if (counted !== this.#counted) this.#counted = counted
        counted.challenges += challenges
        if (isNew) counted.views++
      }
    }

    class Free extends Seen implements RouteHooks {
      log(x: Exchange): void {
        if (x.status !== 429) this.see(x, 0)
      }
    }

    class Paid extends Seen implements RouteHooks {
      async record(x: Exchange): Promise<undefined> {
        // Served late: the purchase was written when the payment landed.
        if (x.purchase !== null) return
        const paid = x.claim!
        await payments.record(paid)
        x.purchase = notes.of(paid.purchaseId, x.link.responseMode === 'wrap')
      }

      respond(x: Exchange): Reply | undefined {
        if (x.answer === null || x.answer.tunnel !== null) return
        return paidReply(x.answer, x.answer.mediaType, x.purchase!, x.settlement!.headers, false)
      }

      log(x: Exchange): void {
        if (x.payment === null && x.status === 402) this.see(x, 1)
      }
    }

    return {
      route: ({ isPaid, link: { id } }) => (isPaid ? new Paid(id) : new Free(id)),
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
