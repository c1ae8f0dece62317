import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Store } from '../../core/domain/store.ts'
import { DashboardPage } from '../../web/dashboard/dashboardPage.ts'
import { html } from '../../web/html.ts'
import type { Api } from '../deps.ts'
import { callerOf, limitPerClient, MINUTE_MS } from '../http/callers.ts'
import { sendPage } from '../http/pages.ts'
import { exactly, field, isoTime, listOf, ok, respond, success } from '../http/responses.ts'

/**
 * `/dashboard` and every address below it are one shell. Its script checks the browser session and shows the view of the address.
 * The shell contains no data of the seller and needs no cookie, because a browser sends no `SameSite=Strict` cookie when the seller
 * follows a link on another site.
 */
export function dashboardPageRoute(app: FastifyInstance, api: Api): void {
  const onRequest = limitPerClient(api, 'page', api.limits.storePerMinute, MINUTE_MS)
  const options = { onRequest, schema: { hide: true } }
  const show = async (request: FastifyRequest, reply: FastifyReply) => sendDashboard(api, request, reply)
  app.get('/dashboard', options, show)
  app.get('/dashboard/*', options, show)
}

/** Sends the shell for the address of a request. */
export function sendDashboard(
  { serviceName, publicUrl }: Pick<Api, 'serviceName' | 'publicUrl'>,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const path = request.url.split('?', 1)[0]!
  return sendPage(reply, {
    name: 'dashboard',
    title: `Dashboard · ${serviceName}`,
    description: 'Your links, your purchases, and open tasks.',
    isUnlisted: true,
    // Wallets inject their own scripts into pages.
    hasTrustedTypes: false,
    body: html`<${DashboardPage} data=${{ serviceName, publicUrl }} path=${path} />`,
  })
}

/** Maximum number of refunds and of links that the list names. One more entry tells that there are more. */
const NAMED = 5

const kinds = ['refund_due', 'link_suspended', 'webhook_off', 'webhook_failing', 'payout'] as const

/** One open task of the seller. */
interface Attention {
  readonly kind: (typeof kinds)[number]
  /** The id of the purchase, link or webhook. */
  readonly id: string | null
  readonly title: string
  readonly detail: string
  readonly since: string | null
}

const attentionSchema = exactly({
  kind: { enum: kinds },
  id: field.textOrNull('The id of the purchase, link or webhook.'),
  title: field.text(),
  detail: field.text(),
  since: field.timeOrNull,
})

/**
 * The open tasks of a store's seller, most urgent first. Refunds come first, then links that cannot be bought, then failing
 * webhooks.
 */
async function attentionOf(api: Api, store: Store): Promise<Attention[]> {
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
    status: 'refund_due',
    limit: NAMED,
  })
  const lost = await Promise.all(purchases.map(({ id }) => api.purchases.lostRefundsOf(id)))
  const named = purchases.map(({ id, createdAtMs }, i) => ({
    kind: 'refund_due' as const,
    id,
    title: 'A refund is due',
    detail:
      lost[i]!.length === 0
        ? 'The buyer paid but received nothing. Refund the purchase from the wallet that was paid.'
        : 'Your refund left the chain. Send the same transaction again, or a new one once it can no longer land.',
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
      ? 'The suspension is permanent. Ask the operator to lift it.'
      : 'Buyers cannot buy this link until you re-enable it.'
    return {
      kind: 'link_suspended' as const,
      id,
      title: `“${title}” is suspended`,
      detail: `${reason} ${after}`,
      since: isoTime(sinceMs),
    }
  })
  if (nextCursor === null) return named
  const more = { kind: 'link_suspended' as const, id: null, title: 'More links are suspended', since: null }
  return [...named, { ...more, detail: 'The list of links shows all of them.' }]
}

async function payoutFaults(api: Api, { payout }: Store): Promise<Attention[]> {
  const faults = await api.payoutFaults(payout)
  const none =
    payout.base === null && payout.solana === null
      ? ['The store has no payout wallet. Set one in the profile.']
      : []
  return [...none, ...faults].map((detail) => ({
    kind: 'payout' as const,
    id: null,
    title: 'A wallet cannot be paid',
    detail,
    since: null,
  }))
}

async function deafWebhooks(api: Api, { id }: Store): Promise<Attention[]> {
  const endpoints = await api.webhooks.ofStore(id)
  return endpoints.flatMap((endpoint): Attention[] => {
    const { id, url, disabledReason, disabledAtMs, failingSinceMs } = endpoint
    // A webhook that the seller disabled is not an open task.
    if (disabledReason === 'seller') return []
    if (disabledAtMs !== null) {
      const why =
        disabledReason === 'gone'
          ? 'The endpoint of the webhook responded with 410.'
          : 'All deliveries failed for a day.'
      const title = 'A webhook was disabled'
      return [{ kind: 'webhook_off', id, title, detail: `${why} ${url}`, since: isoTime(disabledAtMs) }]
    }
    if (failingSinceMs === null) return []
    const title = 'A webhook is failing'
    return [{ kind: 'webhook_failing', id, title, detail: url, since: isoTime(failingSinceMs) }]
  })
}

/** `GET /api/dashboard/attention` returns the open tasks of the seller. */
export function attentionRoute(app: FastifyInstance, api: Api): void {
  app.get(
    '/api/dashboard/attention',
    {
      schema: {
        summary: 'List the open tasks of the seller',
        description: 'Lists the open tasks of the seller, most urgent first.',
        response: respond({ 200: success(exactly({ items: listOf(attentionSchema) })) }, [401, 429]),
      },
    },
    async (request) => ok({ items: await attentionOf(api, callerOf(request).store) }),
  )
}
