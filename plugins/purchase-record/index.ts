import { callerOf } from '../../core/http/callerOf.ts'
import { insist } from '../../core/payments/insist.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import { createPurchaseNotes } from '../../core/payments/purchaseNote.ts'
import { purchaseOf } from '../../core/payments/purchaseOf.ts'
import { settlementPending } from '../../core/payments/settlementPending.ts'
import { type Exchange, gatewayPlugin, type Reply } from '../../core/plugin/gateway.ts'
import { options } from './options.ts'
import { createViews } from './views.ts'

/**
 * Writes the purchase in the same commit as the settled payment and its ledger entries, puts the paid answer together,
 * and notes what became of it.
 */
export default gatewayPlugin({
  name: 'purchase-record',
  api: 1,
  options,
  needs: ['payments', 'purchases', 'chains', 'sealer', 'service', 'clock', 'log'],
  slots: {
    record: { reads: ['payment', 'claim', 'settlement'], writes: ['purchase'] },
    respond: { reads: ['answer', 'purchase', 'settlement'] },
  },
  setup({ viewsFlushMs }, { ports: { payments, purchases, chains, sealer, service, clock, log } }) {
    const notes = createPurchaseNotes(sealer, service.metadataField)
    const views = createViews(purchases, log)
    let timer: NodeJS.Timeout | undefined

    async function record(x: Exchange): Promise<undefined> {
      // Served late: the purchase was written when the payment landed.
      if (x.purchase !== null) return
      const { identity, terms } = x.payment!
      const claim = x.claim!
      const asset = chains.assets.find((a) => a.network === terms.network && a.address === terms.asset)!
      const note = notes.of(claim.purchaseId, x.link.responseMode === 'wrap')
      const { purchase, entries } = purchaseOf(
        {
          ...identity,
          purchaseId: claim.purchaseId,
          linkId: x.link.id,
          storeId: x.link.storeId,
          transaction: x.settlement!.transaction,
          reviewTokenHash: notes.tokenHash(claim.purchaseId),
          atMs: clock.now(),
        },
        asset,
      )
      const recorded = await payments
        .settle(claim.key, claim.owner, x.settlement!.transaction, purchase, entries)
        .catch((err: unknown) => {
          log.error(
            { err, purchaseId: claim.purchaseId },
            'charged, and the purchase could not be written yet',
          )
          return false
        })
      if (!recorded) throw settlementPending(throughAndOpen, claim.purchaseId, x.settlement!.transaction, 2)
      claim.state = 'settled'
      x.purchase = note
    }

    function respond(x: Exchange): Reply | undefined {
      if (x.answer === null || x.answer.tunnel !== null) return
      return paidReply(x.answer, x.answer.mediaType, x.purchase!, x.settlement!.headers, false)
    }

    /** After the answer: delivered, or owed back. What fails here is found by the reconciler. */
    function conclude(x: Exchange, settlesFirst: boolean): void {
      if (x.claim?.state !== 'settled') return
      const { key, purchaseId } = x.claim
      const isOwed = settlesFirst && hasFailed(x)
      const { answer } = x
      if (settlesFirst && !isOwed && answer !== null && answer.tunnel === null) {
        insist(
          () => payments.keepAnswer(key, answer),
          warn('could not keep an answer for a repeated call', purchaseId),
        )
      }
      // Nobody was there to get it: it stays for the buyer to come back for.
      if (!isOwed && (x.status === 0 || (x.isUnsent && answer !== null))) return
      const to = isOwed ? 'refund_due' : 'delivered'
      insist(
        () => payments.moveCharged(key, 'settled', to, [], isOwed ? 'upstream_error' : undefined),
        warn('could not note what became of a purchase', purchaseId),
      )
    }

    const seen = (x: Exchange) => views.add(x.link.id, callerOf(x.clientIp), x.startedAtMs)

    const warn = (message: string, purchaseId: string) => (err: unknown) =>
      log.warn({ err, purchaseId }, message)

    return {
      route({ isPaid, settle }) {
        if (!isPaid) return { log: (x) => x.status !== 429 && seen(x) }
        const settlesFirst = settle === 'before'
        return {
          record,
          respond,
          log: (x) => {
            if (x.payment === null && x.status === 402) seen(x)
            conclude(x, settlesFirst)
          },
        }
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

/** The seller refused, broke off or never answered; a buyer who left by itself is not the seller's failure. */
const hasFailed = ({ upstreamOutcome, upstreamStatus, errorCode }: Exchange) =>
  upstreamOutcome !== 'buyer-left' &&
  (upstreamOutcome !== 'answered' || upstreamStatus >= 400 || errorCode !== null)

/** The chain has the money and the store does not say so yet: the buyer asks again and gets the stored answer. */
const throughAndOpen = 'The payment is through and is being recorded.'
