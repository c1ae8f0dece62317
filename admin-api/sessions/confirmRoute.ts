import type { FastifyInstance } from 'fastify'
import type { Session } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { type IdParams, idOrNotFound, idParams } from '../http/ids.ts'
import { minuteMs, refuse } from '../http/rateLimits.ts'
import { answers, exactly, success, text, uuid } from '../schema/answers.ts'
import { type Confirmation, type ConfirmBody, confirmSession } from './confirmSession.ts'
import { isOf } from './sessionAccess.ts'
import { ownSessionSchema, toOwnView, viewOf } from './sessionView.ts'

/** Looks on chain for transfers that nobody named, of one store: each reads what its wallet got. */
const LOOKS_PER_MINUTE = 30

const confirmBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    txHash: {
      type: ['string', 'null'],
      minLength: 1,
      maxLength: 128,
      description:
        'The transfer: a 0x hash on Base, a base58 signature on Solana. Without it, it is looked for.',
    },
    chain: {
      enum: ['base', 'solana', null],
      description: 'Where. Without it, wherever the session can be paid.',
    },
  },
} as const

const confirmedSchema = {
  ...ownSessionSchema,
  properties: {
    ...ownSessionSchema.properties,
    refundDue: {
      ...exactly(
        { purchaseId: uuid, txHash: text() },
        'Only where a transfer landed for a session that had ended without it, or was paid already: the purchase to pay back.',
      ),
    },
    credited: exactly(
      { txHash: text() },
      'Only of an invoice of fees that had ended without the transfer: what the store owes is less by it, and nothing is paid back.',
    ),
  },
}

/** `POST /api/v1/payments/:id/confirm`: the seller says that a plain transfer has paid, and the chain decides. */
export function confirmRoute(app: FastifyInstance, api: Api): void {
  const inTurnOf = takingTurns()
  /** Looks that wait or are under way, by session and chain: who asks sooner than a slow node answers begins no other. */
  const looks = new Map<string, Promise<Confirmation>>()
  function looked(body: ConfirmBody, session: Session, store: Store): Promise<Confirmation> {
    const name = `${session.id} ${body.chain ?? ''}`
    const look =
      looks.get(name) ??
      inTurnOf(store.id, async () => {
        const now = (await api.sessions.find(session.id)) ?? session
        return confirmSession(api, store, now, body)
      }).finally(() => looks.delete(name))
    looks.set(name, look)
    return look
  }

  app.post<{ Params: IdParams; Body: ConfirmBody }>(
    '/api/v1/payments/:id/confirm',
    {
      // Clients of the document send no body at all.
      preValidation: async (request) => {
        request.body ??= {}
      },
      schema: {
        summary: 'Confirm a payment session by a transfer',
        description:
          'For buyers who pay from any wallet or exchange: exactly the amount, in a token of the session, to the wallet of the store, after the session was made. Verified on chain; one transfer confirms one session. 200 when it is confirmed, also when it was before; 202 while nothing is known yet, or the transfer is not deep enough: ask again. Without txHash the chain is looked through, and the transfer is taken when it can be meant for this session only. A transfer for a session that has ended is booked as a purchase to pay back; for an invoice of fees, as less that is owed (`credited`).',
        params: idParams,
        body: confirmBody,
        response: answers(
          { 200: success(confirmedSchema), 202: success(ownSessionSchema) },
          ...[400, 401, 404, 409, 422, 429, 503],
        ),
      },
    },
    async (request, reply) => {
      const { store } = callerOf(request)
      const id = idOrNotFound(request.params.id, 'NOT_FOUND')
      const session = await api.sessions.find(id)
      if (session === undefined || !isOf(session, store.id))
        throw new TollgateError('NOT_FOUND', 'Your store has no payment session with this id.')
      if (request.body.txHash == null && session.paid === null) {
        const taken = await api.counters.take(`confirm-look:${store.id}`, 1, LOOKS_PER_MINUTE, minuteMs)
        if (!taken.ok) refuse(api, reply, taken, LOOKS_PER_MINUTE)
      }
      const confirmation =
        request.body.txHash == null
          ? await looked(request.body, session, store)
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
 * Looks for one store begin one after the other: the chain's line, which all stores stand in, is short, and the store that
 * asks most must not fill it. So do confirmations of one session by name: the second finds what the first has counted.
 *
 * @returns a function of the id of either, and the work
 */
function takingTurns(): <T>(id: string, work: () => Promise<T>) => Promise<T> {
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
