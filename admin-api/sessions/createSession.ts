import { createHash, hash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'
import { SESSION_LIFETIME_MS, type Session } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { refuseUnpayable } from '../links/linkRules.ts'
import { validationError } from '../schema/validationError.ts'
import { readSession, type SessionBody } from './sessionBody.ts'

const secretPrefix = 'pscs_'

/** A session, and the secret that its buyer reads it with: known here and in the creation's answer only. */
export interface CreatedSession {
  readonly session: Session
  readonly clientSecret: string
}

/**
 * Asks for a payment. The secret is 32 random bytes, of which only the SHA-256 is kept. Where the request may be sent again
 * under an `Idempotency-Key`, it is an HMAC of the session's id instead: as hard to guess, and it can be told again.
 *
 * @param idempotencyKey as it was sent; the same one answers with the same session for 24 hours
 * @throws what {@link readSession} throws; `VALIDATION_ERROR` where nobody could be paid; `IDEMPOTENCY_KEY_REUSED`;
 *   `LIMIT_REACHED`
 */
export async function createSession(
  api: Api,
  store: Store,
  body: SessionBody,
  idempotencyKey?: string,
): Promise<CreatedSession> {
  const idempotency =
    idempotencyKey === undefined
      ? null
      : { key: idempotencyKey, requestHash: hash('sha256', JSON.stringify(body)) }
  // Before anything is judged: what became of its link or its store since does not change what was answered.
  const before = idempotency === null ? undefined : await api.sessions.madeBefore(store.id, idempotency)
  if (before !== undefined) return toldAgain(api, before)
  const fields = await readSession(api, store.id, body)
  await refuseUnpayableAmount(api, store, fields.price)
  const nowMs = api.clock.now()
  const id = randomUUID()
  const clientSecret = idempotency === null ? secretOf(randomBytes(32)) : secretToRetell(api, id)
  const created = {
    ...fields,
    ...{ id, storeId: store.id, secretHash: hashOf(clientSecret), payout: store.payout, asks: null },
    ...{ createdAtMs: nowMs, expiresAtMs: nowMs + SESSION_LIFETIME_MS },
    idempotency,
  }
  const session = await api.sessions.create(created, api.maxOpenSessionsPerStore)
  return session.id === id ? { session, clientSecret } : toldAgain(api, session)
}

/** @throws `CONFLICT` when its secret can not be told any more */
function toldAgain(api: Api, session: Session): CreatedSession {
  const clientSecret = secretToRetell(api, session.id)
  if (isSecretOf(session, clientSecret)) return { session, clientSecret }
  throw new TollgateError(
    'CONFLICT',
    "The session of this Idempotency-Key was made under another secret of the server's. Send a new key for a new session.",
  )
}

const secretOf = (bytes: Uint8Array) => secretPrefix + Buffer.from(bytes).toString('base64url')
/** The secret of a session whose creation may be asked for again. */
export const secretToRetell = ({ sealer }: Pick<Api, 'sealer'>, id: string): string =>
  secretOf(sealer.mac('session-secret', id))
/** What is stored of a secret. */
export const hashOf = (secret: string): string => hash('sha256', secret)

/** Whether this is the secret of a session; takes as long for any text. */
export function isSecretOf({ secretHash }: Pick<Session, 'secretHash'>, secret: string): boolean {
  const given = createHash('sha256').update(secret).digest()
  const kept = Buffer.from(secretHash, 'hex')
  return kept.length === given.length && timingSafeEqual(given, kept)
}

/** Refuses what no buyer could pay now: no wallet, or less than what any network settles. @throws `VALIDATION_ERROR` */
async function refuseUnpayableAmount(api: Api, { payout }: Store, price: string): Promise<void> {
  refuseUnpayable(api, payout, { price })
  if (api.termsOf({ price, payout }).length > 0) return
  const faults = await api.payoutFaults(payout, price)
  const message = `Nobody could pay this: ${faults.join(' ') || 'no network is open on which the store has a wallet.'}`
  throw validationError([{ path: 'amount', code: 'not_payable', message }])
}
