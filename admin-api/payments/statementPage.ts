import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Payout } from '../../core/domain/link.ts'
import { type AtomicAmount, formatAmount } from '../../core/domain/money.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { FeeMonth } from '../../core/ports/store/fees.ts'
import { html } from '../../web/html.ts'
import {
  monthTitle,
  NoStatementPage,
  type StatementAccount,
  StatementPage,
  type StatementWallet,
} from '../../web/statement/statementPage.ts'
import type { Api } from '../deps.ts'
import { callerOf, identify, limitPerClient, MINUTE_MS } from '../http/callers.ts'
import { sendPage } from '../http/pages.ts'
import { sendDashboard } from '../sellers/dashboard.ts'
import { feesOwed, type OwedFees, tokenOf } from './fees.ts'

/** One token's account with the platform in a month. It has the debt before the month, the changes, and the debt after it. */
interface TokenStatement extends Omit<FeeMonth, 'month'> {
  readonly owedBeforeAtomic: AtomicAmount
  /** The debt before the month, plus fees, minus returned fees and payments. Negative if the store paid more than it owed. */
  readonly owedAfterAtomic: AtomicAmount
}

/**
 * The account of every token with activity in the month, or with a debt before it.
 *
 * @param months of one store
 * @param month such as `2026-11`
 */
export function monthStatement(months: readonly FeeMonth[], month: string): TokenStatement[] {
  const before = feesOwed(months.filter((one) => one.month < month))
  return feesOwed(months.filter((one) => one.month <= month)).flatMap((token) => {
    const isSame = (one: Omit<OwedFees, 'owedAtomic'>) => tokenOf(one) === tokenOf(token)
    const parts = months.filter((one) => one.month === month && isSame(one))
    const owedBeforeAtomic = before.find(isSame)?.owedAtomic ?? 0n
    if (parts.length === 0 && owedBeforeAtomic === 0n) return []
    const count = (of: 'sales' | 'refunds') => parts.reduce((sum, one) => sum + one[of], 0)
    const amount = (of: 'salesAtomic' | 'feesAtomic' | 'refundedAtomic' | 'returnedAtomic' | 'paidAtomic') =>
      parts.reduce((sum, one) => sum + one[of], 0n)
    const { owedAtomic: owedAfterAtomic, ...unit } = token
    return {
      ...unit,
      owedBeforeAtomic,
      owedAfterAtomic,
      sales: count('sales'),
      refunds: count('refunds'),
      salesAtomic: amount('salesAtomic'),
      feesAtomic: amount('feesAtomic'),
      refundedAtomic: amount('refundedAtomic'),
      returnedAtomic: amount('returnedAtomic'),
      paidAtomic: amount('paidAtomic'),
    }
  })
}

/**
 * `GET /dashboard/fees/:month` is a month's fees as a printable page, for the signed-in seller. A request without a session cookie
 * gets the dashboard, whose script checks the session. The browser sends no cookie when the seller follows a link on another site.
 */
export function statementPageRoute(app: FastifyInstance, api: Api): void {
  const { serviceName, publicUrl } = api
  const onRequest = limitPerClient(api, 'page', api.limits.storePerMinute, MINUTE_MS)

  app.get<{ Params: { month: string } }>(
    '/dashboard/fees/:month',
    { onRequest, schema: { hide: true } },
    async (request, reply) => {
      reply.header('cache-control', 'private, no-store').header('vary', 'Cookie, Authorization')
      if (request.headers.authorization === undefined && !api.sellers.hasCookie(request))
        return sendDashboard(api, request, reply)
      try {
        await identify(api, request, reply)
      } catch (error) {
        const isForSignIn = isTollgateError(error) && ['UNAUTHORIZED', 'FOREIGN_ORIGIN'].includes(error.code)
        if (!isForSignIn || request.headers.authorization !== undefined) throw error
        return sendDashboard(api, request, reply)
      }
      const { month } = request.params
      const madeAtMs = api.clock.now()
      if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(month))
        return sendNone(
          reply.code(400),
          'This is not a month',
          'Expected a year and a month in the URL, such as /dashboard/fees/2026-11.',
        )
      if (month > new Date(madeAtMs).toISOString().slice(0, 7))
        return sendNone(
          reply.code(404),
          `${monthTitle(month)} has not begun`,
          'Statements exist for every month up to the current one, in UTC.',
        )
      const { store } = callerOf(request)
      const tokens = monthStatement(await api.fees.months(store.id), month)
      const { username, displayName } = store
      return sendPage(reply, {
        name: 'statement',
        title: `Fees of @${username} · ${month} · ${serviceName}`,
        description: `What @${username} owes ${serviceName} for ${monthTitle(month)}.`,
        isUnlisted: true,
        body: html`<${StatementPage}
          serviceName=${serviceName}
          publicUrl=${publicUrl}
          payTo=${walletsOf(api.feesPayTo)}
          store=${{ username, displayName, wallets: walletsOf(store.payout) }}
          month=${month}
          madeAtMs=${madeAtMs}
          accounts=${tokens.map(toAccount)}
          totals=${totalsOf(tokens)}
        />`,
      })
    },
  )

  const sendNone = (reply: FastifyReply, title: string, about: string) =>
    sendPage(reply, {
      name: 'statement',
      title: `${title} · ${serviceName}`,
      description: about,
      isUnlisted: true,
      body: html`<${NoStatementPage} serviceName=${serviceName} title=${title} about=${about} />`,
    })
}

function toAccount(one: TokenStatement): StatementAccount {
  const amount = (atomic: bigint) => formatAmount(atomic, one.decimals, 2)
  return {
    currency: one.symbol,
    token: { network: one.network, asset: one.asset },
    sales: one.sales,
    salesAmount: amount(one.salesAtomic),
    fees: amount(one.feesAtomic),
    refunds: one.refunds,
    refundedAmount: amount(one.refundedAtomic),
    feesReturned: amount(one.returnedAtomic),
    paid: amount(one.paidAtomic),
    owedBefore: amount(one.owedBeforeAtomic),
    owedAfter: amount(one.owedAfterAtomic),
  }
}

/** Totals of the currencies that occur in several accounts. */
function totalsOf(tokens: readonly TokenStatement[]): StatementAccount[] {
  const byCurrency = [...Map.groupBy(tokens, ({ symbol }) => symbol).values()]
  return byCurrency
    .filter((of) => of.length > 1)
    .map((of) => {
      const decimals = Math.max(...of.map((one) => one.decimals))
      const sum = (pick: (one: TokenStatement) => bigint) =>
        of.reduce((all, one) => all + pick(one) * 10n ** BigInt(decimals - one.decimals), 0n)
      const total: TokenStatement = {
        ...of[0]!,
        decimals,
        sales: of.reduce((all, one) => all + one.sales, 0),
        refunds: of.reduce((all, one) => all + one.refunds, 0),
        salesAtomic: sum((one) => one.salesAtomic),
        feesAtomic: sum((one) => one.feesAtomic),
        refundedAtomic: sum((one) => one.refundedAtomic),
        returnedAtomic: sum((one) => one.returnedAtomic),
        paidAtomic: sum((one) => one.paidAtomic),
        owedBeforeAtomic: sum((one) => one.owedBeforeAtomic),
        owedAfterAtomic: sum((one) => one.owedAfterAtomic),
      }
      return { ...toAccount(total), token: null }
    })
}

const walletsOf = ({ base, solana }: Payout): StatementWallet[] => [
  ...(base === null ? [] : [{ chain: 'Base', address: base }]),
  ...(solana === null ? [] : [{ chain: 'Solana', address: solana }]),
]
