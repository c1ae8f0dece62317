import type { Session, SessionStatus } from '../../domain/session.ts'

/** Names a creation that may be sent again, and what was sent with it. */
export interface Idempotency {
  readonly key: string
  readonly requestHash: string
}

export type NewSession = Omit<Session, 'state' | 'endedAtMs' | 'paymentRow' | 'failures' | 'paid'> & {
  /** Null for none. Its key is unique in a store for {@link IDEMPOTENCY_KEPT_MS}. */
  readonly idempotency: Idempotency | null
}

/** A transfer that was sent while a session was open may land this much later. */
export const STRAGGLING_MS = 60_000

/**
 * Chains date their blocks in whole seconds: a transfer that landed in the second in which a session was made may pay it, and
 * one that landed before that does not.
 */
export const BLOCK_TIME_STEP_MS = 1_000

/** How long the key of a creation is remembered at least. */
export const IDEMPOTENCY_KEPT_MS = 24 * 60 * 60 * 1000

/** How long a session that ended unpaid can be read, and confirmed by the name of a transfer, at least. */
export const UNPAID_KEPT_MS = 30 * 24 * 60 * 60 * 1000

/** Of a store's sessions that were made within a day, so many times as many as may be open may have ended unpaid. */
export const UNPAID_PER_OPEN = 5
export const UNPAID_COUNTED_MS = 24 * 60 * 60 * 1000

/** What a session asks for. */
export type Asked = Pick<Session, 'price' | 'asks'>

export interface SessionFilter {
  /** As {@link statusOf} reads it. */
  readonly status?: SessionStatus
  readonly clientReferenceId?: string
  readonly cursor?: string
  readonly limit: number
  readonly nowMs: number
}

export interface SessionPage {
  readonly sessions: readonly Session[]
  /** Opaque; null on the last page. */
  readonly nextCursor: string | null
}

/**
 * Payment sessions. What every implementation promises by itself:
 *
 * - What a payment does to its session is in the commit of the payment's own change (`Books.apply`, `SessionMove`); here is
 *   the rest. Each change is conditional on the state that it leaves, and that is judged in its commit, against all processes.
 * - The link's deletion cancels its sessions in its own commit, whoever deletes it: those that are open, and that no payment is
 *   under way for.
 * - Every method rejects with `store_unavailable` when the store can not say.
 */
export interface Sessions {
  /**
   * Makes a session. @returns the one that was made; where its key was used before, the one that was made then, which is
   * of another id
   * @param maxOpen open sessions that the store may have, counted in the same commit; none named means no limit. One that a
   *   payment has kept open beyond its time is not counted. Whoever cancels what he makes keeps rows for 30 days: of those
   *   that were made within {@link UNPAID_COUNTED_MS} at most {@link UNPAID_PER_OPEN} times as many may have ended unpaid
   * @throws `IDEMPOTENCY_KEY_REUSED` when the earlier request was another one; `LIMIT_REACHED`
   */
  create(session: NewSession, maxOpen?: number): Promise<Session>
  find(id: string): Promise<Session | undefined>
  /**
   * The session that a creation of this key has made.
   *
   * @throws `IDEMPOTENCY_KEY_REUSED` when that request was another one
   */
  madeBefore(storeId: string, idempotency: Idempotency): Promise<Session | undefined>
  /** Of one store, newest first. */
  list(storeId: string, filter: SessionFilter): Promise<SessionPage>
  /**
   * What a store's other sessions ask for that a transfer which landed at this time could have been meant for: those that were
   * made before or within {@link BLOCK_TIME_STEP_MS} after, were open then or until {@link STRAGGLING_MS} before, and are not confirmed.
   *
   * @param slackMs the time may be as much too late: it is by another clock than the sessions'
   * @returns in no order; what several ask for may be there once
   */
  rivals(
    session: Pick<Session, 'id' | 'storeId'>,
    landedAtMs: number,
    slackMs: number,
  ): Promise<readonly Asked[]>
  /** `open` → `canceled`, when it is payable. @returns as it stands then; undefined when there is none */
  cancel(id: string, nowMs: number): Promise<Session | undefined>
  /**
   * `open` → `expired` of those whose time is over and that no payment is under way for, with what the store's endpoints hear of
   * it. Also forgets keys of creations that are old enough.
   * @returns how many have expired; whoever gets `limit` asks again
   */
  expire(nowMs: number, limit: number): Promise<number>
  /**
   * Deletes what expired or was canceled {@link UNPAID_KEPT_MS} ago, from the one that ended first, unless a payment was ever
   * claimed for it, whatever became of that: it may land, be owed, or be asked about.
   *
   * @param limit of those that are looked at; the next call goes on behind them
   * @returns how many are deleted
   */
  forget(nowMs: number, limit: number): Promise<number>
}
