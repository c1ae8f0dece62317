import type { Session, SessionStatus } from '../../domain/session.ts'

/** The idempotency key of a request to create a payment session, and a hash of that request. */
export interface Idempotency {
  readonly key: string
  readonly requestHash: string
}

export type NewSession = Omit<Session, 'state' | 'endedAtMs' | 'paymentRow' | 'failures' | 'paid'> & {
  /** The idempotency key is unique in a store for {@link IDEMPOTENCY_RETENTION_MS}. Null if the request had none. */
  readonly idempotency: Idempotency | null
}

/** How long after the end of a payment session a transfer may land that was sent while the session was open, in ms. */
export const STRAGGLING_MS = 60_000

/**
 * Resolution of block times, in ms. Chains date their blocks in whole seconds. A transfer in the same second in which a payment
 * session was created may therefore pay the session, but an earlier transfer may not.
 */
export const BLOCK_TIME_STEP_MS = 1_000

/** Minimum time for which an idempotency key is remembered, in ms. */
export const IDEMPOTENCY_RETENTION_MS = 24 * 60 * 60 * 1000

/** How long a payment session that ended unpaid can at least be read, and be confirmed by the hash of a transfer, in ms. */
export const UNPAID_RETENTION_MS = 30 * 24 * 60 * 60 * 1000

/**
 * How many payment sessions of a store may have been created within a day and ended unpaid, as a multiple of its maximum of open
 * sessions.
 */
export const UNPAID_PER_OPEN = 5
export const UNPAID_COUNTED_MS = 24 * 60 * 60 * 1000

/** The price and tokens that a payment session requests. */
export type Asked = Pick<Session, 'price' | 'asks'>

export interface SessionFilter {
  /** The status that {@link statusOf} computes. */
  readonly status?: SessionStatus
  readonly clientReferenceId?: string
  readonly cursor?: string
  readonly limit: number
  readonly nowMs: number
}

export interface SessionPage {
  readonly sessions: readonly Session[]
  /** An opaque text. Null on the last page. */
  readonly nextCursor: string | null
}

/**
 * Payment sessions. Every implementation guarantees the following.
 *
 * - The effect of a payment on its session is in the commit of the payment's own change (`Ledger.apply`, `SessionMove`). The
 *   methods here make all other changes. Each change requires the earlier state, which is checked in its commit, against all
 *   processes.
 * - A deletion of a link cancels the link's open sessions in the same commit, except sessions for which a payment is being settled.
 * - Every method rejects with `store_unavailable` if the database does not respond.
 */
export interface Sessions {
  /**
   * Creates a payment session.
   *
   * @returns the new session. If its idempotency key was used before, the session that was created at that time, which has another
   *   id
   * @param maxOpen maximum open sessions of the store, counted in the same commit. Absent for no limit. It does not count sessions
   *   that are open beyond their time because of a payment. Sessions that ended unpaid still have rows for 30 days, so at most
   *   {@link UNPAID_PER_OPEN} times as many sessions of the last {@link UNPAID_COUNTED_MS} may have ended unpaid
   * @throws `IDEMPOTENCY_KEY_REUSED` if the earlier request was different, `LIMIT_REACHED` at a maximum
   */
  create(session: NewSession, maxOpen?: number): Promise<Session>
  find(id: string): Promise<Session | undefined>
  /**
   * The payment session that was created with this idempotency key.
   *
   * @throws `IDEMPOTENCY_KEY_REUSED` if that request was different
   */
  madeBefore(storeId: string, idempotency: Idempotency): Promise<Session | undefined>
  /** The payment sessions of one store, newest first. */
  list(storeId: string, filter: SessionFilter): Promise<SessionPage>
  /**
   * The terms of the store's other payment sessions for which a transfer that landed at this time could be meant. These sessions
   * are not confirmed. They were created before that time or within {@link BLOCK_TIME_STEP_MS} after it, and were open then or
   * until {@link STRAGGLING_MS} before it.
   *
   * @param slackMs how much too late the time may be, because its clock is not the clock of the sessions
   * @returns in no order. Equal terms may appear once
   */
  rivals(
    session: Pick<Session, 'id' | 'storeId'>,
    landedAtMs: number,
    slackMs: number,
  ): Promise<readonly Asked[]>
  /**
   * `open` → `canceled`, if the session is payable.
   *
   * @returns the session after the change. Undefined if there is none
   */
  cancel(id: string, nowMs: number): Promise<Session | undefined>
  /**
   * `open` → `expired`, for sessions whose time is over and for which no payment is being settled. It also writes the events for
   * the stores' webhooks and deletes old idempotency keys.
   *
   * @returns how many sessions have expired. If the result is `limit`, the caller calls again
   */
  expire(nowMs: number, limit: number): Promise<number>
  /**
   * Deletes sessions that expired or were canceled at least {@link UNPAID_RETENTION_MS} ago, in the order of their ends. A session for
   * which a payment was ever claimed stays, because that payment may land, be owed back or be queried.
   *
   * @param limit maximum sessions that are read. The next call continues after them
   * @returns how many were deleted
   */
  forget(nowMs: number, limit: number): Promise<number>
}
