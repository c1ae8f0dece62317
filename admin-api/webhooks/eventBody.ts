import type { LinkSuspension } from '../../core/domain/link.ts'
import { formatAmount, parseAmount } from '../../core/domain/money.ts'
import type { Session } from '../../core/domain/session.ts'
import type { WebhookEvent } from '../../core/domain/webhook.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/envelope.ts'
import { toPurchaseView } from '../purchases/purchaseView.ts'

/**
 * What is sent of an event: the document's fields (`event, purchaseId, txHash, amount`; marketplace interface, section 6)
 * and those of Standard Webhooks (`type, timestamp, data`). Composed once; every try and every replay sends these bytes.
 */
export async function eventBody(
  api: Pick<Api, 'purchases' | 'links' | 'sessions'>,
  event: WebhookEvent,
): Promise<string> {
  const { kind, atMs } = event
  const more = await about(api, event)
  const { top = {}, data } = more
  return JSON.stringify({ event: kind, ...top, type: kind, timestamp: isoTime(atMs), data })
}

interface Parts {
  readonly top?: object
  readonly data: object
}

function about(api: Pick<Api, 'purchases' | 'links' | 'sessions'>, event: WebhookEvent): Promise<Parts> {
  if (event.purchaseId !== null) return aboutPurchase(api, event)
  return event.sessionId === null ? aboutLink(api, event) : aboutSession(api, event.sessionId)
}

async function aboutPurchase(
  { purchases, sessions }: Pick<Api, 'purchases' | 'sessions'>,
  { kind, purchaseId, linkId, sessionId, detail }: WebhookEvent,
): Promise<Parts> {
  const purchase = await purchases.find(purchaseId!)
  // It was written in the same commit: a store that does not know it is not the one that it was.
  if (purchase === undefined) return { top: { purchaseId }, data: { purchaseId, linkId } }
  const { id, status, explorerUrl, ...view } = toPurchaseView(purchase)
  const session = sessionId === null ? undefined : await sessions.find(sessionId)
  const refund = kind === 'refund.recorded' ? await purchases.refundOf(id) : undefined
  return {
    top: { purchaseId: id, txHash: view.txHash, amount: view.amount },
    data: {
      ...{ purchaseId: id, ...view, explorerUrl },
      // Who hears of nothing else, as a link's own webhook, must not take what is owed back for a sale.
      ...(kind === 'purchase.confirmed' && { status }),
      ...(session !== undefined && { session: sessionOf(session) }),
      ...(kind === 'refund.due' && { reason: detail }),
      ...(kind === 'review.created' && { review: JSON.parse(detail!) as object }),
      ...(refund !== undefined && {
        refund: { txHash: refund.transaction, refundedAt: isoTime(refund.refundedAtMs) },
      }),
    },
  }
}

/** What a seller knows a session by. */
const sessionOf = ({ id, linkId, title, price, clientReferenceId, metadata }: Session) => ({
  ...{ id, linkId, title, clientReferenceId, metadata },
  amount: formatAmount(parseAmount(price, 6), 6, 2),
})

/** Of one that nobody has paid. */
async function aboutSession({ sessions }: Pick<Api, 'sessions'>, id: string): Promise<Parts> {
  const session = await sessions.find(id)
  if (session === undefined) return { data: { session: { id } } }
  const shown = sessionOf(session)
  return {
    top: { amount: shown.amount },
    data: { session: { ...shown, expiresAt: isoTime(session.expiresAtMs) } },
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
