import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Payout } from '../../core/domain/link.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import { html } from '../../web/html.ts'
import {
  monthTitle,
  NoStatementPage,
  type StatementAccount,
  StatementPage,
  type StatementWallet,
} from '../../web/statement/statementPage.ts'
import { callerOf, identify } from '../auth/authenticate.ts'
import { sendDashboard } from '../dashboard/dashboardPageRoute.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { sendPage } from '../http/sendPage.ts'
import { monthStatement, type TokenStatement } from './monthStatement.ts'

/**
 * `GET /dashboard/fees/:month`: a month's fees as a page to print, of whoever is signed in. Anybody else gets the dashboard, which
 * asks who is there: its cookie does not come along where a link elsewhere leads here.
 */
export function statementPageRoute(app: FastifyInstance, api: Api): void {
  const { serviceName, publicUrl } = api
  const onRequest = limitPerClient(api, 'page', api.limits.storePerMinute, minuteMs)

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
          'That is no month',
          'Expected a year and a month in the address, such as /dashboard/fees/2026-11.',
        )
      if (month > new Date(madeAtMs).toISOString().slice(0, 7))
        return sendNone(
          reply.code(404),
          `${monthTitle(month)} has not begun`,
          'There is a statement of each month up to now, in UTC.',
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

/** Sums of the currencies that stand in several accounts, whatever unit each of these counts in. */
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
