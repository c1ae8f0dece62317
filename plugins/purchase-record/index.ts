import { callerOf } from '../../core/http/caller.ts'
import type { Job } from '../../core/jobs/job.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { type Exchange, gatewayPlugin, type Reply, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { OptionsSchema } from '../../core/plugin/options.ts'
import { type Counted, TrafficCounts } from '../../core/stats/trafficCounts.ts'
import { SeenLink, Views } from './views.ts'

const options = {
  type: 'object',
  additionalProperties: false,
  examples: [{ viewsFlushMs: 5_000 }],
  properties: {
    viewsFlushMs: {
      type: 'integer',
      minimum: 100,
      maximum: 3_600_000,
      default: 4_000,
      description:
        'Time between two writes of the counted views to the database, in milliseconds. A view is a caller of a free link, or a caller who got the 402 of a paid link. Each caller counts once an hour. The gateway writes the views of at most 250 links per second.',
    },
  },
} as const satisfies OptionsSchema

/** Records the sale, assembles the paid response, and counts a link's viewers and 402 responses. */
export default gatewayPlugin({
  name: 'purchase-record',
  api: 1,
  options,
  needs: ['payments', 'stats', 'sealer', 'service', 'log'],
  slots: {
    record: { reads: ['claim', 'settlement'], writes: ['purchase'] },
    respond: { reads: ['response', 'purchase', 'settlement'] },
    log: { mayRead: ['payment', 'signedIn', 'claim', 'response'] },
  },
  setup({ viewsFlushMs }, { ports: { payments, stats, sealer, service, log } }) {
    const notes = createPurchaseNotes(sealer, service.metadataField)
    const counts = new TrafficCounts(stats, log)
    const views = new Views()
    let flushing: Job | undefined

    /** Counts a link's viewers and its 402 responses. The object has the link's current counts, so that a call needs no lookup. */
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

    /** A link that wallets call by a signature. A call without one gets the 402. */
    class SignedIn extends Seen implements RouteHooks {
      log(x: Exchange): void {
        if (x.status !== 429) this.see(x, x.status === 402 && x.signedIn === null ? 1 : 0)
      }
    }

    class Paid extends Seen implements RouteHooks {
      async record(x: Exchange): Promise<undefined> {
        // The call is served late, so its purchase was recorded when the payment landed, or a channel was charged for it.
        if (x.purchase !== null) return
        const paid = x.claim!
        await payments.record(paid)
        x.purchase = notes.of(paid.purchaseId, x.link.responseMode === 'wrap')
      }

      respond(x: Exchange): Reply | undefined {
        // A metered response has already been sent.
        if (x.response === null || x.response.tunnel !== null || x.meter !== null) return
        const receipt = x.settlement!.headersFor(x.response.status)
        return paidReply(x.response, x.response.mediaType, x.purchase!, receipt, false)
      }

      log(x: Exchange): void {
        if (x.payment === null && x.channelCall === null && x.status === 402) this.see(x, 1)
      }
    }

    return {
      route({ isPaid, link: { id, access } }) {
        if (isPaid) return new Paid(id)
        return access === null ? new Free(id) : new SignedIn(id)
      },
      start() {
        flushing = counts.flushEvery(viewsFlushMs)
      },
      async close() {
        void flushing?.stop()
        await counts.flush()
      },
    }
  },
})
