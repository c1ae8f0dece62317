import type { LinkSuspension } from '../../core/domain/link.ts'
import { formatAmount, parseAmount } from '../../core/domain/money.ts'
import { chainNameOf, type NetworkId } from '../../core/domain/network.ts'
import type { Session } from '../../core/domain/session.ts'
import type { WebhookEvent } from '../../core/domain/webhook.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/responses.ts'
import { toPurchaseView } from '../purchases/purchaseRoutes.ts'

/**
 * The body of an event. It has the fields of the marketplace interface (`event, purchaseId, txHash, amount`; section 6) and those
 * of Standard Webhooks (`type, timestamp, data`). The body is composed once, so every try and every replay sends the same bytes.
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
  if (event.kind === 'channel.charged') return aboutChannel(api, event)
  return event.sessionId === null ? aboutLink(api, event) : aboutSession(api, event.sessionId)
}

async function aboutPurchase(
  { purchases, sessions }: Pick<Api, 'purchases' | 'sessions'>,
  { kind, purchaseId, linkId, sessionId, detail }: WebhookEvent,
): Promise<Parts> {
  const purchase = await purchases.find(purchaseId!)
  // The purchase was written in the same commit as the event. If it is missing, the database is another one or was restored.
  if (purchase === undefined) return { top: { purchaseId }, data: { purchaseId, linkId } }
  const { id, status, explorerUrl, ...view } = toPurchaseView(purchase)
  const session = sessionId === null ? undefined : await sessions.find(sessionId)
  const refund = kind === 'refund.recorded' ? await purchases.refundOf(id) : undefined
  return {
    top: { purchaseId: id, txHash: view.txHash, amount: view.amount },
    data: {
      purchaseId: id,
      ...view,
      explorerUrl,
      // Receivers of this event only, such as a link's own webhook, need the status. Without it they could mistake a refund that is
      // due for a sale.
      ...(kind === 'purchase.confirmed' && { status }),
      ...(session !== undefined && { session: sessionOf(session) }),
      ...((kind === 'refund.due' || (kind === 'refund.recorded' && detail !== null)) && { reason: detail }),
      ...(kind === 'review.created' && { review: JSON.parse(detail!) as object }),
      ...(refund !== undefined && {
        refund: { txHash: refund.transaction, refundedAt: isoTime(refund.refundedAtMs) },
      }),
    },
  }
}

/** The fields by which a seller identifies a payment session. */
const sessionOf = ({ id, linkId, title, price, clientReferenceId, metadata }: Session) => ({
  id,
  linkId,
  title,
  clientReferenceId,
  metadata,
  amount: formatAmount(parseAmount(price, 6), 6, 2),
})

/** The body for a payment session that was not paid. */
async function aboutSession({ sessions }: Pick<Api, 'sessions'>, id: string): Promise<Parts> {
  const session = await sessions.find(id)
  if (session === undefined) return { data: { session: { id } } }
  const shown = sessionOf(session)
  return {
    top: { amount: shown.amount },
    data: { session: { ...shown, expiresAt: isoTime(session.expiresAtMs) } },
  }
}

/** A minute of a channel, as the database writes it into the event. */
export interface ChargedMinute {
  readonly channelId: string
  readonly payer: string
  readonly calls: number
  readonly amount: string
  readonly currency: string
  readonly network: NetworkId
  readonly asset: string
  readonly fromMs: number
  readonly links: readonly { readonly linkId: string; readonly calls: number; readonly amount: string }[]
}

async function aboutChannel({ links }: Pick<Api, 'links'>, { detail, atMs }: WebhookEvent): Promise<Parts> {
  const { fromMs, links: sold, ...charged } = JSON.parse(detail!) as ChargedMinute
  const found = await Promise.all(sold.map(({ linkId }) => links.find(linkId)))
  return {
    top: { amount: charged.amount },
    data: {
      ...charged,
      chain: chainNameOf(charged.network),
      from: isoTime(fromMs),
      to: isoTime(atMs),
      links: sold.map(({ linkId, calls, amount }, i) => ({
        linkId,
        slug: found[i]?.slug ?? null,
        title: found[i]?.title ?? null,
        calls,
        amount,
      })),
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
      linkId,
      slug: link?.slug ?? null,
      title: link?.title ?? null,
      reason,
      permanent,
      cooldownUntil: isoTime(cooldownUntilMs),
    },
  }
}
