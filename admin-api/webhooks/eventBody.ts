import type { LinkSuspension } from '../../core/domain/link.ts'
import type { WebhookEvent } from '../../core/domain/webhook.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/envelope.ts'
import { toPurchaseView } from '../purchases/purchaseView.ts'

/**
 * What is sent of an event: the document's fields (`event, purchaseId, txHash, amount`; marketplace interface, section 6)
 * and those of Standard Webhooks (`type, timestamp, data`). Composed once; every try and every replay sends these bytes.
 */
export async function eventBody(api: Pick<Api, 'purchases' | 'links'>, event: WebhookEvent): Promise<string> {
  const { kind, atMs } = event
  const more = event.purchaseId === null ? await aboutLink(api, event) : await aboutPurchase(api, event)
  const { top = {}, data } = more
  return JSON.stringify({ event: kind, ...top, type: kind, timestamp: isoTime(atMs), data })
}

interface Parts {
  readonly top?: object
  readonly data: object
}

async function aboutPurchase(
  { purchases }: Pick<Api, 'purchases'>,
  { kind, purchaseId, linkId, detail }: WebhookEvent,
): Promise<Parts> {
  const purchase = await purchases.find(purchaseId!)
  // It was written in the same commit: a store that does not know it is not the one that it was.
  if (purchase === undefined) return { top: { purchaseId }, data: { purchaseId, linkId } }
  // The status is as it was when this happened, whatever has become of it.
  const { id, status: _, explorerUrl, ...view } = toPurchaseView(purchase)
  const refund = kind === 'refund.recorded' ? await purchases.refundOf(id) : undefined
  return {
    top: { purchaseId: id, txHash: view.txHash, amount: view.amount },
    data: {
      ...{ purchaseId: id, ...view, explorerUrl },
      ...(kind === 'refund.due' && { reason: detail }),
      ...(kind === 'review.created' && { review: JSON.parse(detail!) as object }),
      ...(refund !== undefined && {
        refund: { txHash: refund.transaction, refundedAt: isoTime(refund.refundedAtMs) },
      }),
    },
  }
}

async function aboutLink({ links }: Pick<Api, 'links'>, event: WebhookEvent): Promise<Parts> {
  const { kind, linkId, endpointId, detail } = event
  if (kind === 'test') return { data: { webhookId: endpointId } }
  const link = linkId === null ? undefined : await links.find(linkId)
  const { reason, cooldownUntilMs, permanent } = JSON.parse(detail ?? '{}') as LinkSuspension
  return {
    data: {
      ...{ linkId, slug: link?.slug ?? null, title: link?.title ?? null, reason, permanent },
      cooldownUntil: isoTime(cooldownUntilMs),
    },
  }
}
