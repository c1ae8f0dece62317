import type { FastifyInstance } from 'fastify'
import { formatAmount } from '../../core/domain/money.ts'
import type { PaymentRecord } from '../../core/domain/payment.ts'
import type { Api } from '../deps.ts'
import { isoTime, ok } from '../http/envelope.ts'
import { answers, count, exactly, flag, listOf, success, text, textOrNull, time } from '../schema/answers.ts'
import { operatorOnly } from './operatorSession.ts'

/** Payments of each kind that are shown; of more it is said that there are more. */
const SHOWN = 50
/** A payment that was put off so often, a minute or two long, waits for somebody. As of `tollgate doctor`. */
const PARKED_TRIES = 5

const payment = exactly({
  purchaseId: text(),
  storeId: text(),
  state: text(),
  network: text('CAIP-2.'),
  amount: text(),
  payer: text(),
  txHash: textOrNull(),
  tries: count,
  reason: textOrNull('Why it waits.'),
  since: time,
})

const payments = exactly({ rows: listOf(payment), hasMore: flag })

const status = exactly({
  problems: listOf(text('What keeps the service from working.')),
  networks: listOf(exactly({ network: text('CAIP-2.'), isOpen: flag, problems: listOf(text()) })),
  pending: payments,
  refundsDue: payments,
  parked: exactly({ total: count, rows: listOf(payment) }),
  checkedAt: time,
})

/** What the operator asks: is the gateway healthy, and is money stuck? */
export function operatorStatusRoutes(app: FastifyInstance, api: Api): void {
  app.get(
    '/api/operator/status',
    {
      onRequest: operatorOnly(api),
      schema: {
        summary: 'Is the gateway healthy, and is money stuck?',
        security: [{ operator: [] }],
        response: answers({ 200: success(status) }, 401, 403, 404),
      },
    },
    async () => {
      const { books, networks, problems: problemsNow } = api.operator!
      const list = async (...states: PaymentRecord['state'][]) => {
        const rows = await books.list({ states, limit: SHOWN + 1 })
        return { rows: rows.slice(0, SHOWN).map(view), hasMore: rows.length > SHOWN }
      }
      const [problems, found, pending, refundsDue, parked] = await Promise.all([
        problemsNow(),
        networks(),
        list('settling', 'pending'),
        list('refund_due'),
        books.parked(PARKED_TRIES, SHOWN),
      ])
      return ok({
        ...{ problems, networks: found, pending, refundsDue },
        parked: { total: parked.total, rows: parked.rows.map(view) },
        checkedAt: isoTime(api.clock.now()),
      })
    },
  )

  app.get(
    '/api/operator/config',
    {
      onRequest: operatorOnly(api),
      schema: {
        summary: 'The effective configuration',
        description: 'With every default, and without its secrets.',
        security: [{ operator: [] }],
        response: answers({ 200: success({ type: 'object' }) }, 401, 403, 404),
      },
    },
    async () => ok(api.operator!.config),
  )

  const view = (row: PaymentRecord) => {
    const asset = api.assets.find(
      ({ network, address }) => network === row.network && isSameAsset(address, row.asset),
    )
    const amount =
      asset === undefined ? `${row.amountAtomic}` : formatAmount(row.amountAtomic, asset.decimals, 2)
    return {
      ...{ purchaseId: row.purchaseId, storeId: row.storeId, state: row.state, network: row.network },
      amount: asset === undefined ? `${amount} of ${row.asset}` : `${amount} ${asset.symbol}`,
      ...{ payer: row.payer, txHash: row.transaction ?? row.attempt?.transaction ?? null, tries: row.tries },
      ...{ reason: row.dueReason ?? row.errorReason, since: isoTime(row.updatedAtMs) },
    }
  }
}

const isSameAsset = (a: string, b: string): boolean =>
  a === b || (a.startsWith('0x') && a.toLowerCase() === b.toLowerCase())
