import type { Store } from '../../core/domain/store.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/envelope.ts'
import { exactly, text, textOrNull, timeOrNull } from '../schema/answers.ts'

/** Refunds, and links, that are named one by one; of more it is said that there are more. */
const NAMED = 5

const kinds = ['refund_due', 'link_suspended', 'webhook_off', 'webhook_failing', 'payout'] as const

/** One thing that waits for the seller. */
export interface Attention {
  readonly kind: (typeof kinds)[number]
  /** Of the purchase, link or webhook. */
  readonly id: string | null
  readonly title: string
  readonly detail: string
  readonly since: string | null
}

export const attentionSchema = exactly({
  kind: { enum: kinds },
  id: textOrNull('Of the purchase, link or webhook.'),
  title: text(),
  detail: text(),
  since: timeOrNull,
})

/** What waits for the seller of a store, the most pressing first: money, then what can't be bought, then what isn't heard. */
export async function attentionOf(api: Api, store: Store): Promise<Attention[]> {
  const lists = await Promise.all([
    refundsDue(api, store),
    suspendedLinks(api, store),
    payoutFaults(api, store),
    deafWebhooks(api, store),
  ])
  return lists.flat()
}

async function refundsDue(api: Api, { id: storeId }: Store): Promise<Attention[]> {
  const { purchases, nextCursor } = await api.purchases.page(storeId, {
    ...{ status: 'refund_due', limit: NAMED },
  })
  const named = purchases.map(({ id, createdAtMs }) => ({
    ...{ kind: 'refund_due' as const, id, title: 'A refund is due' },
    detail: 'The buyer paid and got nothing for it. Refund it from the wallet that was paid.',
    since: isoTime(createdAtMs),
  }))
  if (nextCursor === null) return named
  const more = { kind: 'refund_due' as const, id: null, title: 'More refunds are due', since: null }
  return [...named, { ...more, detail: 'The list of purchases shows all of them.' }]
}

async function suspendedLinks(api: Api, { id }: Store): Promise<Attention[]> {
  const { links, nextCursor } = await api.links.page(id, { state: 'suspended', limit: NAMED })
  const named = links.map(({ id, title, suspension }) => {
    const { reason, permanent, sinceMs } = suspension!
    const after = permanent
      ? 'It stays so; the operator can help.'
      : 'Nobody can buy it until it is re-enabled.'
    return {
      ...{ kind: 'link_suspended' as const, id, title: `“${title}” is suspended` },
      ...{ detail: `${reason} ${after}`, since: isoTime(sinceMs) },
    }
  })
  if (nextCursor === null) return named
  const more = { kind: 'link_suspended' as const, id: null, title: 'More links are suspended', since: null }
  return [...named, { ...more, detail: 'The list of links shows all of them.' }]
}

async function payoutFaults(api: Api, { payout }: Store): Promise<Attention[]> {
  const faults = await api.payoutFaults(payout)
  const none =
    payout.base === null && payout.solana === null ? ['No wallet is named that buyers could pay.'] : []
  return [...none, ...faults].map((detail) => ({
    ...{ kind: 'payout' as const, id: null, title: 'A wallet can not be paid', detail, since: null },
  }))
}

async function deafWebhooks(api: Api, { id }: Store): Promise<Attention[]> {
  const endpoints = await api.webhooks.ofStore(id)
  return endpoints.flatMap((endpoint): Attention[] => {
    const { id, url, disabledReason, disabledAtMs, failingSinceMs } = endpoint
    // What its seller has switched off is no surprise.
    if (disabledReason === 'seller') return []
    if (disabledAtMs !== null) {
      const why = disabledReason === 'gone' ? 'It answered 410.' : 'Nothing got through for a day.'
      const title = 'A webhook was switched off'
      return [{ kind: 'webhook_off', id, title, detail: `${why} ${url}`, since: isoTime(disabledAtMs) }]
    }
    if (failingSinceMs === null) return []
    const title = 'A webhook is failing'
    return [{ kind: 'webhook_failing', id, title, detail: url, since: isoTime(failingSinceMs) }]
  })
}
