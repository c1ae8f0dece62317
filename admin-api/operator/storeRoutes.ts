import type { FastifyInstance } from 'fastify'
import { LRUCache } from 'lru-cache'
import { formatAmount } from '../../core/domain/money.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ListedStore, SuspendedLink } from '../../core/ports/store/operatorView.ts'
import type { Api } from '../deps.ts'
import type { Infer } from '../http/fields.ts'
import { type IdParams, idOrNotFound, idParams } from '../http/ownership.ts'
import { exactly, field, isoTime, listOf, ok, respond, success } from '../http/responses.ts'
import { reEnableLink } from '../links/linkHealth.ts'
import { daysOf } from '../links/stats.ts'
import { owedByToken } from '../payments/fees.ts'
import { operatorOnly } from './operatorRoutes.ts'

const STORES_A_PAGE = 20
/** Maximum number of suspended links in the response. The response also includes their total. */
const SUSPENDED_SHOWN = 100
/** How long a store's owed fees are cached, in ms. They are added up over all of its sales. */
const FEES_AGE_MS = 60_000

const storesQuery = {
  type: 'object',
  properties: {
    search: {
      type: 'string',
      maxLength: 64,
      default: '',
      description: 'List only stores that have this text in the username or display name.',
    },
    after: {
      type: 'string',
      maxLength: 64,
      default: '',
      description: 'To get the next page, the `next` of the previous response.',
    },
  },
} as const

const store = exactly({
  id: field.uuid,
  username: field.text(),
  displayName: field.text(),
  createdAt: field.time,
  links: field.count,
  purchases: field.count,
  revenue: field.text('In USDC.'),
  feesOwed: listOf(exactly({ currency: field.text(), network: field.text('CAIP-2.'), amount: field.text() })),
  lastSaleAt: field.timeOrNull,
})

const suspendedLink = exactly({
  id: field.uuid,
  title: field.text(),
  link: field.text('`<seller>/<slug>`.'),
  reason: field.text(),
  since: field.time,
  cooldownUntil: field.time,
  permanent: field.flag,
})

/** Routes for the operator to view stores and suspended links, and to lift suspensions. */
export function operatorStoreRoutes(app: FastifyInstance, api: Api): void {
  const onRequest = operatorOnly(api)
  const security = [{ operator: [] }]
  const owed = new LRUCache<string, ReturnType<typeof owedByToken>>({
    max: 1_000,
    ttl: FEES_AGE_MS,
    perf: api.clock,
  })

  app.get<{ Querystring: Infer<typeof storesQuery> }>(
    '/api/operator/stores',
    {
      onRequest,
      schema: {
        summary: 'List the stores',
        description: `Lists the stores by username, ${STORES_A_PAGE} per page. \`purchases\` and \`revenue\` cover 30 days, without purchases by the store's own wallets. Owed fees are at most a minute old.`,
        querystring: storesQuery,
        security,
        response: respond(
          {
            200: success(exactly({ rows: listOf(store), next: field.textOrNull('Null on the last page.') })),
          },
          [400, 401, 403, 404],
        ),
      },
    },
    async (request) => {
      const { search, after } = request.query
      const found = await api.operator!.operatorView.stores(
        search.trim().toLowerCase(),
        after,
        STORES_A_PAGE + 1,
      )
      const page = found.slice(0, STORES_A_PAGE)
      const rows = await Promise.all(page.map(viewOfStore))
      return ok({ rows, next: found.length > STORES_A_PAGE ? page.at(-1)!.username : null })
    },
  )

  async function viewOfStore({ lastSaleAtMs, createdAtMs, ...listed }: ListedStore) {
    const [{ purchases, revenueE18 }, fees] = await Promise.all([
      // A store that never sold anything has no totals.
      lastSaleAtMs !== null
        ? api.stats.totals(listed.id, daysOf('30d', api.clock.now()))
        : { purchases: 0, revenueE18: 0n },
      // Fees are read for every store, because a fee that was paid still counts if a reorganization undid its sale.
      owedBy(listed.id),
    ])
    return {
      ...listed,
      createdAt: isoTime(createdAtMs),
      purchases,
      revenue: formatAmount(revenueE18, 18, 2),
      feesOwed: fees.map(({ symbol: currency, network, owedAtomic, decimals }) => ({
        currency,
        network,
        amount: formatAmount(owedAtomic, decimals, 2),
      })),
      lastSaleAt: lastSaleAtMs === null ? null : isoTime(lastSaleAtMs),
    }
  }

  async function owedBy(storeId: string) {
    const known = owed.get(storeId)
    if (known !== undefined) return known
    const found = owedByToken(await api.fees.months(storeId), api.assets)
    owed.set(storeId, found)
    return found
  }

  app.get(
    '/api/operator/suspensions',
    {
      onRequest,
      schema: {
        summary: 'List the suspended links',
        description:
          'Lists the suspended links, most recently suspended first. The gateway suspends a link because of failed health checks or failed calls of buyers.',
        security,
        response: respond(
          { 200: success(exactly({ total: field.count, rows: listOf(suspendedLink) })) },
          [401, 403, 404],
        ),
      },
    },
    async () => {
      const { total, rows } = await api.operator!.operatorView.suspended(SUSPENDED_SHOWN)
      return ok({ total, rows: rows.map(viewOfSuspended) })
    },
  )

  app.post<{ Params: IdParams }>(
    '/api/operator/suspensions/:id/lift',
    {
      onRequest,
      schema: {
        summary: 'Lift the suspension of a link',
        description:
          'Lifts the suspension of a link, even if the suspension is permanent or the cooldown has not ended. The API must pass two health checks.',
        params: idParams,
        security,
        response: respond({ 200: success(exactly({ message: field.text() })) }, [401, 403, 404, 409, 422]),
      },
    },
    async (request) => {
      const unknown = 'No link has this id.'
      const link = await api.links.find(idOrNotFound(request.params.id, 'NOT_FOUND', unknown))
      const owner = link && (await api.stores.find(link.storeId))
      if (!link?.isActive || owner === undefined) throw new TollgateError('NOT_FOUND', unknown)
      const message = await reEnableLink(api, owner, link, 'operator')
      api.log.warn({ linkId: link.id, requestId: request.id }, 'the operator lifted a suspension')
      return ok({ message })
    },
  )
}

const viewOfSuspended = ({ linkId, title, username, slug, suspension }: SuspendedLink) => ({
  id: linkId,
  title,
  link: `${username}/${slug}`,
  reason: suspension.reason,
  since: isoTime(suspension.sinceMs),
  cooldownUntil: isoTime(suspension.cooldownUntilMs),
  permanent: suspension.permanent,
})
