import type { FastifyInstance } from 'fastify'
import type { Session } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { callerOf, MINUTE_MS, refuse } from '../http/callers.ts'
import { type IdParams, idOrNotFound, idParams } from '../http/ownership.ts'
import { exactly, field, ok, respond, success } from '../http/responses.ts'
import { type Confirmation, type ConfirmBody, confirmSession } from './confirmSession.ts'
import { isOf } from './sessionAccess.ts'
import { ownSessionSchema, toOwnView, viewOf } from './sessionView.ts'

/**
 * Maximum number of searches per store and minute for transfers without a given transaction. Each search reads all transfers to the
 * store's wallet.
 */
const READS_PER_MINUTE = 30

const confirmBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    txHash: {
      type: ['string', 'null'],
      minLength: 1,
      maxLength: 128,
      description:
        'The transaction of the transfer: a 0x hash on Base, a base58 signature on Solana. If txHash is omitted, the gateway searches the chain for the transfer.',
    },
    chain: {
      enum: ['base', 'solana', null],
      description:
        'The chain on which the gateway searches the transfer. Default: every chain on which the session can be paid.',
    },
  },
} as const

const confirmedSchema = {
  ...ownSessionSchema,
  properties: {
    ...ownSessionSchema.properties,
    refundDue: {
      ...exactly(
        { purchaseId: field.uuid, txHash: field.text() },
        'Only if the transfer is for a session that had ended or was paid already: the purchase to refund.',
      ),
    },
    credited: exactly(
      { txHash: field.text() },
      'Only for an invoice of fees that had ended: the transfer reduces what the store owes, and nothing is refunded.',
    ),
  },
}

/**
 * `POST /api/v1/payments/:id/confirm` lets the seller claim that a plain transfer paid the session. The gateway checks the claim on
 * chain.
 */
export function confirmRoute(app: FastifyInstance, api: Api): void {
  const inTurnOf = serialQueuePerId()
  /** Searches that wait or are in progress, by session and chain. A request during a slow search joins that search. */
  const searches = new Map<string, Promise<Confirmation>>()
  function searched(body: ConfirmBody, session: Session, store: Store): Promise<Confirmation> {
    const name = `${session.id} ${body.chain ?? ''}`
    const search =
      searches.get(name) ??
      inTurnOf(store.id, async () => {
        const now = (await api.sessions.find(session.id)) ?? session
        return confirmSession(api, store, now, body)
      }).finally(() => searches.delete(name))
    searches.set(name, search)
    return search
  }

  app.post<{ Params: IdParams; Body: ConfirmBody }>(
    '/api/v1/payments/:id/confirm',
    {
      // The body is optional, because clients of the marketplace interface send none.
      preValidation: async (request) => {
        request.body ??= {}
      },
      schema: {
        summary: 'Confirm a payment session by an ordinary transfer',
        description:
          'For a buyer who paid by an ordinary transfer from a wallet or an exchange. The transfer must send exactly the amount, in a token of the session, to the wallet of the store, after the session was created. The gateway verifies the transfer on chain. One transfer confirms one session. The response is 200 if the session is confirmed. The response is 202 if the gateway has not found the transfer yet or the transfer needs more confirmations. Then repeat the request. Without txHash, the gateway searches the chain and accepts a transfer only if it fits no other session. If the session has ended, the gateway records the transfer as a purchase to refund. If the session is an invoice of fees, the gateway records a late transfer as a credit (`credited`).',
        params: idParams,
        body: confirmBody,
        response: respond(
          { 200: success(confirmedSchema), 202: success(ownSessionSchema) },
          [400, 401, 404, 409, 422, 429, 503],
        ),
      },
    },
    async (request, reply) => {
      const { store } = callerOf(request)
      const unknown = 'Your store has no payment session with this id.'
      const id = idOrNotFound(request.params.id, 'NOT_FOUND', unknown)
      const session = await api.sessions.find(id)
      if (session === undefined || !isOf(session, store.id)) throw new TollgateError('NOT_FOUND', unknown)
      if (request.body.txHash == null && session.paid === null) {
        const taken = await api.counters.take(`confirm-look:${store.id}`, 1, READS_PER_MINUTE, MINUTE_MS)
        if (!taken.ok) refuse(api, reply, taken, READS_PER_MINUTE)
      }
      const confirmation =
        request.body.txHash == null
          ? await searched(request.body, session, store)
          : await inTurnOf(session.id, async () =>
              confirmSession(api, store, (await api.sessions.find(id)) ?? session, request.body),
            )
      const now = (await api.sessions.find(id)) ?? session
      const view = toOwnView(await viewOf(api, now), now)
      if (confirmation.status === 'pending') return reply.code(202).header('retry-after', 5).send(ok(view))
      if (confirmation.status === 'confirmed')
        return ok(confirmation.further === undefined ? view : { ...view, refundDue: confirmation.further })
      if (confirmation.status === 'credited')
        return ok({ ...view, credited: { txHash: confirmation.txHash } })
      const { purchaseId, txHash } = confirmation
      return ok({ ...view, refundDue: { purchaseId, txHash } })
    },
  )
}

/**
 * Creates a queue per id, which runs one task at a time. Searches of one store run one after the other, because all stores share
 * the chain's short queue and one store must not fill it. Confirmations of one session by transaction also run one after the other,
 * so that the second finds the record of the first.
 *
 * @returns a function that takes the id of the store or session, and the work
 */
function serialQueuePerId(): <T>(id: string, work: () => Promise<T>) => Promise<T> {
  const lines = new Map<string, Promise<void>>()
  return (id, work) => {
    const turn = (lines.get(id) ?? Promise.resolve()).then(work)
    const ended = turn.then(ignore, ignore).then(() => {
      if (lines.get(id) === ended) lines.delete(id)
    })
    lines.set(id, ended)
    return turn
  }
}

const ignore = (): void => {}
