import type { FastifyInstance } from 'fastify'
import { LRUCache } from 'lru-cache'
import { formatAmount } from '../../core/domain/money.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ListedStore, SuspendedLink } from '../../core/ports/store/oversight.ts'
import type { Api } from '../deps.ts'
import { owedByToken } from '../fees/feeStatement.ts'
import { isoTime, ok } from '../http/envelope.ts'
import { type IdParams, idOrNotFound, idParams } from '../http/ids.ts'
import { reEnableLink } from '../links/reEnableLink.ts'
import {
  answers,
  count,
  exactly,
  flag,
  listOf,
  success,
  text,
  textOrNull,
  time,
  timeOrNull,
  uuid,
} from '../schema/answers.ts'
import type { Infer } from '../schema/infer.ts'
import { daysOf } from '../stats/period.ts'
import { operatorOnly } from './operatorSession.ts'

const STORES_A_PAGE = 20
/** Suspended links that are shown; of more it is said how many there are. */
const SUSPENDED_SHOWN = 100
/** What a store owes is added up over all that it sold. */
const FEES_AGE_MS = 60_000

const storesQuery = {
  type: 'object',
  properties: {
    search: { type: 'string', maxLength: 64, default: '', description: 'In username or display name.' },
    after: { type: 'string', maxLength: 64, default: '', description: '`next` of the page before.' },
  },
} as const

const store = exactly({
  id: uuid,
  username: text(),
  displayName: text(),
  createdAt: time,
  links: count,
  purchases: count,
  revenue: text('In USDC.'),
  feesOwed: listOf(exactly({ currency: text(), network: text('CAIP-2.'), amount: text() })),
  lastSaleAt: timeOrNull,
})

const suspendedLink = exactly({
  id: uuid,
  title: text(),
  link: text('`<seller>/<slug>`.'),
  reason: text(),
  since: time,
  cooldownUntil: time,
  permanent: flag,
})

/** What the operator sees of stores and of suspended links, and how a suspension is lifted. */
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
        description: `By username, ${STORES_A_PAGE} a page. \`purchases\` and \`revenue\` are of 30 days and without the store's own wallets; what is owed is a minute old at most.`,
        querystring: storesQuery,
        security,
        response: answers(
          { 200: success(exactly({ rows: listOf(store), next: textOrNull('Null on the last page.') })) },
          ...[400, 401, 403, 404],
        ),
      },
    },
    async (request) => {
      const { search = '', after = '' } = request.query
      const found = await api.operator!.oversight.stores(
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
      // Nothing was ever sold: there is nothing to add up.
      lastSaleAtMs !== null
        ? api.figures.totals(listed.id, daysOf('30d', api.clock.now()))
        : { purchases: 0, revenueE18: 0n },
      // What was paid for a sale that has left the chain since is still there.
      owedBy(listed.id),
    ])
    return {
      ...{ ...listed, createdAt: isoTime(createdAtMs), purchases },
      revenue: formatAmount(revenueE18, 18, 2),
      feesOwed: fees.map(({ symbol: currency, network, owedAtomic, decimals }) => ({
        ...{ currency, network, amount: formatAmount(owedAtomic, decimals, 2) },
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
          'Those suspended last come first. Health checks and the calls of buyers suspend links, nobody else does.',
        security,
        response: answers(
          { 200: success(exactly({ total: count, rows: listOf(suspendedLink) })) },
          ...[401, 403, 404],
        ),
      },
    },
    async () => {
      const { total, rows } = await api.operator!.oversight.suspended(SUSPENDED_SHOWN)
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
          'Also a permanent one, and before its cooldown is over. The API has to pass two health checks.',
        params: idParams,
        security,
        response: answers({ 200: success(exactly({ message: text() })) }, 401, 403, 404, 409, 422),
      },
    },
    async (request) => {
      const link = await api.links.find(idOrNotFound(request.params.id, 'NOT_FOUND'))
      const owner = link && (await api.stores.find(link.storeId))
      if (!link?.isActive || owner === undefined)
        throw new TollgateError('NOT_FOUND', 'There is no link with this id.')
      const message = await reEnableLink(api, owner, link, 'operator')
      api.log.warn({ linkId: link.id, requestId: request.id }, 'the operator lifted a suspension')
      return ok({ message })
    },
  )
}

const viewOfSuspended = ({ linkId, title, username, slug, suspension }: SuspendedLink) => ({
  ...{ id: linkId, title, link: `${username}/${slug}`, reason: suspension.reason },
  ...{ since: isoTime(suspension.sinceMs), cooldownUntil: isoTime(suspension.cooldownUntilMs) },
  permanent: suspension.permanent,
})
