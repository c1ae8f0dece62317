import type { FastifyInstance } from 'fastify'
import { feesAccountOf } from '../../core/domain/ledger.ts'
import { payoutFor } from '../../core/domain/link.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { chainNameOf } from '../../core/domain/network.ts'
import { type Session, sessionStatuses, statusOf } from '../../core/domain/session.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { isoTime, ok } from '../http/envelope.ts'
import {
  answers,
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
import { nextCursorField, type PageQuery, pageFields } from '../schema/page.ts'
import { secretToRetell } from '../sessions/createSession.ts'
import { checkoutUrlOf } from '../sessions/sessionView.ts'
import { createInvoice, type WantedInvoice } from './createInvoice.ts'

const invoiceSchema = exactly({
  id: { ...uuid, description: 'Of the payment session that it is.' },
  status: { enum: sessionStatuses },
  amount: text(),
  currency: text(),
  chain: { enum: ['base', 'solana'] },
  network: text('CAIP-2.'),
  asset: text(),
  payTo: text("The operator's wallet."),
  processing: { ...flag, description: 'A payment is being settled.' },
  checkoutUrl: textOrNull('The page on which it is paid, while it is open.'),
  txHash: textOrNull('Set once it is paid.'),
  createdAt: time,
  expiresAt: { ...time, description: '30 minutes after its creation; then ask for a new one.' },
  paidAt: timeOrNull,
})

const invoiceBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    network: {
      type: ['string', 'null'],
      maxLength: 64,
      description: 'CAIP-2; needed where several are owed.',
    },
    asset: {
      type: ['string', 'null'],
      maxLength: 64,
      description: 'The token, where several are owed there.',
    },
  },
} as const

const listQuery = {
  type: 'object',
  properties: {
    ...pageFields,
  },
} as const

/** `/api/v1/fees/invoices`: what the caller's store owes, to be paid at the checkout to the operator's wallet. */
export function invoiceRoutes(app: FastifyInstance, api: Api): void {
  app.post<{ Body: WantedInvoice }>(
    '/api/v1/fees/invoices',
    {
      // Without a body it is the one token that something is owed in.
      preValidation: async (request) => {
        request.body ??= {}
      },
      schema: {
        summary: 'Ask for an invoice of the fees that are owed',
        description:
          'A payment session of all that is owed now in one token, for 30 minutes, paid to the wallet of the operator: at its checkout, by x402 (POST /api/v1/payments/:id/pay with the API key), or by a plain transfer from a wallet that signs in to the store (POST /api/v1/payments/:id/confirm). Asked again, it answers the one that is open, or a new one where something else is owed by now. What is paid lowers what is owed, also when it lands late; more than is owed is used up by coming fees.',
        body: invoiceBody,
        response: answers({ 201: success(invoiceSchema) }, 400, 401, 409, 429),
      },
    },
    async (request, reply) => {
      const { store } = callerOf(request)
      return reply.code(201).send(ok(view(await createInvoice(api, store, request.body))))
    },
  )

  app.get<{ Querystring: PageQuery }>(
    '/api/v1/fees/invoices',
    {
      schema: {
        summary: 'List the invoices',
        description: 'Newest first.',
        querystring: listQuery,
        response: answers(
          {
            200: success(exactly({ invoices: listOf(invoiceSchema), nextCursor: nextCursorField })),
          },
          400,
          401,
          429,
        ),
      },
    },
    async (request) => {
      const account = feesAccountOf(callerOf(request).store.id)
      const page = await api.sessions.list(account, { ...request.query, nowMs: api.clock.now() })
      return ok({ invoices: page.sessions.map(view), nextCursor: page.nextCursor })
    },
  )

  function view(session: Session) {
    const { id, asks, payout, paid, endedAtMs } = session
    if (asks === null || payout === null) throw new Error(`Expected session ${id} to be an invoice.`)
    const { network, asset, symbol, decimals, amountAtomic } = asks
    const status = statusOf(session, api.clock.now())
    const isOpen = status === 'open'
    return {
      ...{ id, status, amount: formatAmount(amountAtomic, decimals, 2), currency: symbol },
      ...{ chain: chainNameOf(network), network, asset, payTo: payoutFor(payout, network) ?? '' },
      processing: isOpen && session.paymentRow !== null,
      checkoutUrl: isOpen ? checkoutUrlOf(api.publicUrl, id, secretToRetell(api, id)) : null,
      txHash: paid?.txHash ?? null,
      ...{ createdAt: isoTime(session.createdAtMs), expiresAt: isoTime(session.expiresAtMs) },
      paidAt: paid === null || endedAtMs === null ? null : isoTime(endedAtMs),
    }
  }
}
