import { type Kysely, type Selectable, sql } from 'kysely'
import type { PurchaseStatus } from '../../../core/domain/purchase.ts'
import { SESSION_LIFETIME_MS, type SessionStatus } from '../../../core/domain/session.ts'
import { readCursor } from '../../../core/ports/store/purchases.ts'
import {
  BLOCK_TIME_STEP_MS,
  type SessionFilter,
  type Sessions,
  STRAGGLING_MS,
} from '../../../core/ports/store/sessions.ts'
import { cutPage } from '../cutPage.ts'
import type { Schema, SessionTable } from '../schema.ts'

/** A session with the status of its purchase, which stands elsewhere; null without one. */
export type SessionRow = Selectable<SessionTable> & { readonly purchase_status: PurchaseStatus }

/** What the port Sessions asks a database for, for whoever has one to run it. */
export function sessionQueries(query: Kysely<Schema>) {
  /** Sessions `s` of one state as the store has it, and of either side of their time where that matters. */
  function arm(
    storeId: string,
    { clientReferenceId, cursor, limit, nowMs }: SessionFilter,
    state?: SessionStatus,
    isOver?: boolean,
  ) {
    let found = query.selectFrom('payment_sessions as s').selectAll('s').where('s.store_id', '=', storeId)
    if (state !== undefined) found = found.where('s.state', '=', state)
    if (clientReferenceId !== undefined) found = found.where('s.client_reference_id', '=', clientReferenceId)
    if (isOver === true) found = found.where('s.expires_at_ms', '<=', nowMs).where('s.payment_id', 'is', null)
    if (isOver === false)
      found = found.where((e) => e.or([e('s.expires_at_ms', '>', nowMs), e('s.payment_id', 'is not', null)]))
    if (cursor !== undefined) {
      const { atMs, id } = readCursor(cursor)
      found = found.where((e) => e(e.refTuple('s.created_at_ms', 's.id'), '<', e.tuple(atMs, id)))
    }
    return found
      .leftJoin('purchases as u', 'u.id', 's.purchase_id')
      .select('u.status as purchase_status')
      .orderBy('s.created_at_ms', 'desc')
      .orderBy('s.id', 'desc')
      .limit(limit + 1)
  }

  return {
    /** Together they find what is listed, each with the status of its purchase; see {@link pageOf}. */
    arms(storeId: string, filter: SessionFilter): ReturnType<typeof arm>[] {
      const { status } = filter
      if (status === 'open') return [arm(storeId, filter, 'open', false)]
      // Those that nobody has written to have expired yet are among the open ones.
      if (status === 'expired') return [arm(storeId, filter, 'expired'), arm(storeId, filter, 'open', true)]
      return [arm(storeId, filter, status)]
    },

    /** Each price once: a store may have made tens of thousands within the time. */
    rivals(...[{ id, storeId }, landedAtMs, slackMs]: Parameters<Sessions['rivals']>) {
      const openAtMs = landedAtMs - slackMs - STRAGGLING_MS
      return query
        .selectFrom('payment_sessions')
        .select(['price', 'asks'])
        .distinct()
        .where('store_id', '=', storeId)
        .where('created_at_ms', '>=', openAtMs - 2 * SESSION_LIFETIME_MS)
        .where('created_at_ms', '<=', landedAtMs + BLOCK_TIME_STEP_MS - 1)
        .where('id', '<>', id)
        .where(sql<boolean>`state <> 'confirmed'`)
        .where((e) => e(e.fn.coalesce('ended_at_ms', 'expires_at_ms'), '>=', openAtMs))
    },
  }
}

/** @param rows of all arms, each with one more than `limit` where there is one */
export function pageOf<Row extends Selectable<SessionTable>>(rows: readonly Row[], limit: number) {
  const newest = rows.toSorted((a, b) => b.created_at_ms - a.created_at_ms || (a.id < b.id ? 1 : -1))
  return cutPage(newest, limit, (row) => [row.created_at_ms, row.id])
}
