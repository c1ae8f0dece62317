import type { FastifyInstance } from 'fastify'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { prefersCsv } from '../http/prefersCsv.ts'
import { toCsv } from '../http/toCsv.ts'
import { answers, exactly, listOf, success } from '../schema/answers.ts'
import {
  type FeeMonthView,
  feeMonthSchema,
  feesOwedSchema,
  owedByToken,
  toFeeMonth,
  toOwed,
} from './feeStatement.ts'

const month = { type: 'string', pattern: '^\\d{4}-(0[1-9]|1[0-2])$' } as const

const statementQuery = {
  type: 'object',
  properties: {
    from: { ...month, description: 'The first month, such as 2026-01. Without it, from the first sale on.' },
    to: { ...month, description: 'The last month. Without it, up to now.' },
  },
} as const

const csvColumns = [
  'month',
  'currency',
  'chain',
  'network',
  'asset',
  'sales',
  'salesAmount',
  'fees',
  'refunds',
  'refundedAmount',
  'feesReturned',
  'balance',
  'paid',
] as const satisfies readonly (keyof FeeMonthView)[]

/** `GET /api/v1/fees`: what the caller's store owes the platform, month by month, from the books. */
export function feesRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: { from?: string; to?: string } }>(
    '/api/v1/fees',
    {
      schema: {
        summary: 'Read the fee statements',
        description:
          'One entry for each month and currency, newest first: what was sold, what was paid back, and the share of the platform. `owed` is over all months, whatever is asked for. With Accept: text/csv a table of the months.',
        querystring: statementQuery,
        response: answers(
          { 200: success(exactly({ months: listOf(feeMonthSchema), owed: listOf(feesOwedSchema) })) },
          400,
          401,
          429,
        ),
      },
    },
    async (request, reply) => {
      const { from = '', to = '9999-12' } = request.query
      const all = await api.fees.months(callerOf(request).store.id)
      const months = all.filter((one) => one.month >= from && one.month <= to).map(toFeeMonth)
      reply.header('vary', 'Accept')
      if (!prefersCsv(request.headers.accept))
        return ok({ months, owed: owedByToken(all, api.assets).map((one) => toOwed(one, api.feesPayTo)) })
      return reply
        .type('text/csv; charset=utf-8; header=present')
        .header('content-disposition', 'attachment; filename="fees.csv"')
        .send(toCsv(csvColumns, months))
    },
  )
}
