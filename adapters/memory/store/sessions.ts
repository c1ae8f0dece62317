import {
  isPayable,
  MOST_SETTLEMENT_FAILURES,
  mayConfirm,
  SESSION_LIFETIME_MS,
  type Session,
  statusOf,
} from '../../../core/domain/session.ts'
import { idempotencyKeyReused, tooManySessions } from '../../../core/ports/refusals.ts'
import type { PaymentChange } from '../../../core/ports/store/books.ts'
import {
  BLOCK_TIME_STEP_MS,
  IDEMPOTENCY_KEPT_MS,
  type Idempotency,
  type Sessions,
  STRAGGLING_MS,
  UNPAID_COUNTED_MS,
  UNPAID_KEPT_MS,
  UNPAID_PER_OPEN,
} from '../../../core/ports/store/sessions.ts'
import type { Access } from './access.ts'
import type { Memory, SessionRow, Tables } from './memory.ts'
import { newestPage } from './newestPage.ts'
import { tell } from './webhooks.ts'

/** Of what is forgotten after a while, where nobody has begun to pay it. */
const endings: ReadonlySet<Session['state']> = new Set(['expired', 'canceled'])

/** Payment sessions in memory. */
export function createSessions(memory: Memory, { read, write }: Access): Sessions {
  const { sessions } = memory.tables
  const toSession = ({ idempotency: _, ...session }: SessionRow): Session => ({
    ...session,
    paid: session.paid && {
      ...session.paid,
      status: statusOfPurchase(memory.tables, session.paid.purchaseId),
    },
  })

  function madeBefore(storeId: string, { key, requestHash }: Idempotency): Session | undefined {
    const found = sessions.values().find((one) => one.storeId === storeId && one.idempotency?.key === key)
    if (found !== undefined && found.idempotency?.requestHash !== requestHash) throw idempotencyKeyReused(key)
    return found && toSession(found)
  }

  return {
    create: (session, maxOpen = Number.MAX_SAFE_INTEGER) =>
      write('flushed', () => {
        const { idempotency, storeId, createdAtMs } = session
        const before = idempotency === null ? undefined : madeBefore(storeId, idempotency)
        if (before !== undefined) return before
        let [open, unpaid] = [0, 0]
        for (const one of sessions.values()) {
          if (one.storeId !== storeId) continue
          if (one.state === 'open' && one.createdAtMs > createdAtMs - SESSION_LIFETIME_MS) open++
          if (endings.has(one.state) && one.createdAtMs > createdAtMs - UNPAID_COUNTED_MS) unpaid++
        }
        if (open >= maxOpen || unpaid >= maxOpen * UNPAID_PER_OPEN) throw tooManySessions(maxOpen)
        const made: SessionRow = {
          ...session,
          ...{ state: 'open', endedAtMs: null, paymentRow: null, failures: 0, paid: null },
        }
        sessions.set(session.id, made)
        return toSession(made)
      }),

    find: (id) =>
      read(() => {
        const found = sessions.get(id)
        return found && toSession(found)
      }),

    madeBefore: (storeId, idempotency) => read(() => madeBefore(storeId, idempotency)),

    list: (storeId, { status, clientReferenceId, nowMs, ...page }) =>
      read(() => {
        const found = sessions
          .values()
          .filter(
            (one) =>
              one.storeId === storeId &&
              (status === undefined || statusOf(one, nowMs) === status) &&
              (clientReferenceId === undefined || one.clientReferenceId === clientReferenceId),
          )
        const { shown, nextCursor } = newestPage(found, page)
        return { sessions: shown.map(toSession), nextCursor }
      }),

    rivals: ({ id, storeId }, landedAtMs, slackMs) =>
      read(() => {
        const openAtMs = landedAtMs - slackMs - STRAGGLING_MS
        const asked = sessions
          .values()
          .filter(
            (one) =>
              one.storeId === storeId &&
              one.id !== id &&
              one.state !== 'confirmed' &&
              one.createdAtMs < landedAtMs + BLOCK_TIME_STEP_MS &&
              one.createdAtMs >= openAtMs - 2 * SESSION_LIFETIME_MS &&
              (one.endedAtMs ?? one.expiresAtMs) >= openAtMs,
          )
          .map(({ price, asks }) => ({ price, asks }))
        return [...asked]
      }),

    cancel: (id, nowMs) =>
      write('flushed', () => {
        const found = sessions.get(id)
        if (found !== undefined && isPayable(found, nowMs)) end(memory, found, 'canceled', nowMs)
        const now = sessions.get(id)
        return now && toSession(now)
      }),

    expire: (nowMs, limit) =>
      write('visible', () => {
        for (const one of sessions.values())
          if (one.idempotency !== null && one.createdAtMs < nowMs - IDEMPOTENCY_KEPT_MS)
            sessions.set(one.id, { ...one, idempotency: null })
        const over = sessions
          .values()
          .filter((one) => one.state === 'open' && statusOf(one, nowMs) === 'expired')
          .slice(0, limit)
        for (const one of over) {
          end(memory, one, 'expired', one.expiresAtMs)
          const { id: sessionId, storeId, linkId, expiresAtMs: atMs } = one
          tell(memory, {
            ...{ kind: 'payment.expired', storeId, linkId, purchaseId: null, sessionId, endpointId: null },
            ...{ detail: null, atMs },
          })
        }
        return over.length
      }),

    forget: (nowMs, limit) =>
      write('visible', () => {
        const beforeMs = nowMs - UNPAID_KEPT_MS
        const ended = [
          ...sessions
            .values()
            .filter(({ state, endedAtMs }) => endings.has(state) && (endedAtMs ?? Infinity) <= beforeMs),
        ]
        if (ended.length === 0) return 0
        const claimedFor = new Set(memory.tables.payments.values().map(({ sessionId }) => sessionId))
        const unpaid = ended
          .filter(({ id }) => !claimedFor.has(id))
          .sort((a, b) => a.endedAtMs! - b.endedAtMs!)
          .slice(0, limit)
        for (const { id } of unpaid) sessions.delete(id)
        return unpaid.length
      }),
  }
}

function end({ tables }: Memory, session: SessionRow, state: Session['state'], atMs: number): void {
  tables.sessions.set(session.id, { ...session, state, endedAtMs: atMs })
}

/** Whether the condition of what a payment's change does to its session holds. */
export function mayMoveSession(
  { sessions }: Tables,
  { session, row }: PaymentChange,
  nowMs: number,
): boolean {
  if (session === undefined || session.does === 'release' || session.does === 'fail') return true
  const found = sessions.get(session.id)
  if (found === undefined) return false
  return session.does === 'take' ? isPayable(found, nowMs) : mayConfirm(found, row, nowMs)
}

/** Does it, inside the write of the payment's change. */
export function moveSession(
  { tables: { sessions, links } }: Memory,
  { session, row, purchase }: PaymentChange,
  nowMs: number,
): void {
  const { does, id } = session!
  const found = sessions.get(id)
  if (found === undefined) return
  if (does === 'take') return sessions.set(id, { ...found, paymentRow: row })
  if (does === 'confirm') {
    const { id: purchaseId, txHash, network, buyerWallet } = purchase!
    return sessions.set(id, {
      ...{ ...found, state: 'confirmed', paymentRow: row, endedAtMs: found.endedAtMs ?? nowMs },
      paid: { purchaseId, txHash, network, buyerWallet, status: 'delivered' },
    })
  }
  if (found.paymentRow !== row || found.state !== 'open') return
  const failures = found.failures + (does === 'fail' ? 1 : 0)
  const isLinkGone = found.linkId !== null && links.get(found.linkId)?.isActive === false
  const isOver = isLinkGone || (does === 'fail' && failures >= MOST_SETTLEMENT_FAILURES)
  sessions.set(id, {
    ...{ ...found, failures, paymentRow: null },
    ...(isOver && { state: 'failed' as const, endedAtMs: nowMs }),
  })
}

/** What the deletion of a link does, inside its write. */
export function cancelSessionsOf(memory: Memory, linkId: string, atMs: number): void {
  for (const one of memory.tables.sessions.values())
    if (one.linkId === linkId && isPayable(one, atMs)) end(memory, one, 'canceled', atMs)
}

const statusOfPurchase = ({ purchases, rowOfPurchase }: Tables, id: string) =>
  purchases.get(rowOfPurchase.get(id)!)!.purchase.status
