import {
  hasAccountNumber,
  neverSent,
  openStates,
  type PaymentRecord,
  requireClaimable,
  unresolvedStates,
} from '../../../core/domain/payment.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { alreadyBooked, numberTaken } from '../../../core/ports/refusals.ts'
import {
  type Books,
  LARGEST_DELAY_MS,
  type PaymentChange,
  takenOver,
} from '../../../core/ports/store/books.ts'
import type { Access } from './access.ts'
import { isOver } from './leases.ts'
import type { Memory, PaymentRow, Tables } from './memory.ts'
import { mayMoveSession, moveSession } from './sessions.ts'
import { tell } from './webhooks.ts'

/** The rows of payments in memory. What a rule of the port refuses throws or answers false, and nothing has changed. */
export function createBooks(memory: Memory, { read, write }: Access, clock: Clock): Books {
  const { tables, storeClock } = memory
  const { payments, rowOfKey, due, leased, leases } = tables

  function put(row: PaymentRow): void {
    payments.set(row.row, row)
    if (row.lease === null) leased.delete(row.row)
    else leased.set(row.row, row.lease)
    if (row.dueAtMs === null) due.delete(row.row)
    else due.set(row.row, row.dueAtMs)
  }

  const dueAt = (delayMs: number | null): number | null =>
    delayMs === null ? null : storeClock.now() + Math.min(delayMs, LARGEST_DELAY_MS)

  function apply(change: PaymentChange): boolean {
    const row = payments.get(change.row)
    if (row === undefined || !holds(change, row) || !isFreeRefund(tables, change)) return false
    if (!mayMoveSession(tables, change, clock.now()) || isRefund(tables, change)) return false
    if (isNumberTaken(tables, change)) throw numberTaken()
    const { settled } = change
    const lease = change.takenBy === undefined ? row.lease : change.takenBy
    put({
      ...row,
      state: change.to,
      lease: isOpen(change.to) ? lease : null,
      errorReason: given(change.errorReason, row.errorReason),
      attempt: given(change.attempt, row.attempt),
      answer: given(change.answer, row.answer),
      ...(settled && { ...settled }),
      dueAtMs: dueAt(change.dueInMs),
      tries: 0,
      dueReason: null,
      updatedAtMs: clock.now(),
    })
    if (change.purchase !== undefined) book(tables, row.row, change.purchase, settled?.event ?? null)
    if (change.purchaseStatus !== undefined) setStatus(tables, row.row, change.purchaseStatus)
    if (change.entries !== undefined) {
      const before = tables.ledger.get(row.purchaseId) ?? []
      tables.ledger.set(row.purchaseId, [...before, ...change.entries])
    }
    if (change.refund !== undefined) {
      const { network, transaction } = change.refund
      tables.refunds.set(row.row, {
        network,
        transaction: canonical(network, transaction),
        refundedAtMs: clock.now(),
      })
    }
    if (change.session !== undefined) moveSession(memory, change, clock.now())
    const { storeId, linkId, purchaseId, sessionId } = row
    for (const { kind, detail = null } of change.tells ?? [])
      tell(memory, {
        ...{ kind, storeId, linkId, purchaseId, sessionId, endpointId: null },
        ...{ detail, atMs: clock.now() },
      })
    return true
  }

  const byMove = (a: PaymentRow, b: PaymentRow) => a.updatedAtMs - b.updatedAtMs || a.row - b.row

  return {
    claim: (request) =>
      write('visible', () => {
        requireClaimable(request)
        const number = rowOfKey.get(request.key)
        const present = number === undefined ? undefined : payments.get(number)!
        if (present !== undefined && present.state !== 'rejected')
          return { won: false, record: toRecord(present) }
        const nowMs = clock.now()
        const row = present?.row ?? memory.nextId()
        rowOfKey.set(request.key, row)
        put({
          ...request,
          ...{ row, state: 'claimed', attempt: null, answer: null, transaction: null, event: null },
          ...{ block: null, chargedAtomic: null, errorReason: null, isLandedLate: false, tries: 0 },
          ...{ dueReason: null, dueAtMs: null, claimedAtMs: nowMs, updatedAtMs: nowMs },
        })
        return { won: true, row }
      }),

    apply: (change) => write(change.durability, () => apply(change)),

    applyAll: (changes) => {
      const durability = changes.some((change) => change.durability === 'flushed') ? 'flushed' : 'visible'
      return write(durability, () =>
        changes.map((change) => {
          try {
            return memory.write('visible', () => apply(change))
          } catch (error) {
            return error as Error
          }
        }),
      )
    },

    find: (key) =>
      read(() => {
        const number = rowOfKey.get(key)
        return number === undefined ? undefined : toRecord(payments.get(number)!)
      }),

    statesOf: (keys) =>
      read(() => {
        const rows = keys.flatMap((key) => payments.get(rowOfKey.get(key) ?? -1) ?? [])
        return new Map(rows.map(({ key, state }) => [key, state]))
      }),

    answerOf: (row) => read(() => payments.get(row)?.answer ?? undefined),

    adopt: (lease, states, limit) =>
      write('visible', () => {
        const nowMs = storeClock.now()
        const living = new Set(leases.values().flatMap((one) => (isOver(one, nowMs) ? [] : [one.id]))).add(
          lease.id,
        )
        const left = leased
          .keys()
          .map((row) => payments.get(row)!)
          .filter((row) => !living.has(row.lease!) && (states as readonly string[]).includes(row.state))
          .slice(0, limit)
        for (const row of left) put({ ...row, lease: lease.id, dueAtMs: nowMs, dueReason: takenOver })
        return left.length
      }),

    due: ({ states, network, limit }) =>
      read(() => {
        const nowMs = storeClock.now()
        return due
          .keys()
          .map((row) => payments.get(row)!)
          .filter(
            (row) =>
              states.includes(row.state) &&
              (network === undefined || row.network === network) &&
              (row.dueAtMs! <= nowMs || row.dueAtMs! > nowMs + LARGEST_DELAY_MS),
          )
          .sort((a, b) => a.dueAtMs! - b.dueAtMs! || a.row - b.row)
          .slice(0, limit)
          .map(toRecord)
      }),

    putOff: (rows) =>
      write('visible', () => {
        for (const { row, state, afterMs, tries, reason } of rows) {
          const present = payments.get(row)
          if (present?.state !== state) continue
          const dueReason = reason ?? (afterMs === null && tries === 0 ? null : present.dueReason)
          put({ ...present, dueAtMs: dueAt(afterMs), tries, dueReason })
        }
      }),

    parked: (tries, limit) =>
      read(() => {
        const rows = payments
          .values()
          .filter((row) => row.tries > 0 && (row.tries >= tries || row.dueAtMs === null))
          .sort((a, b) => b.tries - a.tries || a.row - b.row)
        return { total: rows.length, rows: rows.slice(0, limit).map(toRecord) }
      }),

    openAttempts: (settler) =>
      read(() =>
        payments.values().flatMap(({ state, attempt, errorReason }) =>
          (isUnresolved(state) || state === 'reorged') && attempt?.settler === settler
            ? [
                {
                  ...{ ...attempt, bytes: '' },
                  ...(state === 'reorged' && { isReorged: true as const }),
                  ...(errorReason === neverSent && { isUnsent: true as const }),
                },
              ]
            : [],
        ),
      ),

    minedAttempts: (settler) =>
      read(() => {
        const mined = payments.values().flatMap(({ state, attempt, transaction, dueAtMs }) => {
          const isSettled = state === 'settled' || state === 'delivered' || state === 'refund_due'
          return isSettled &&
            dueAtMs !== null &&
            attempt?.settler === settler &&
            attempt.transaction === transaction
            ? [attempt]
            : []
        })
        const byTransaction = new Map([...mined].map((attempt) => [attempt.transaction, attempt]))
        return [...byTransaction.values()].map((attempt) => ({
          ...attempt,
          bytes: '',
          isMined: true as const,
        }))
      }),

    list: ({ states, settler, lease, updatedBeforeMs, updatedAfterMs, isNewestFirst, limit }) =>
      read(() => {
        const rows = payments
          .values()
          .filter(
            (row) =>
              states.includes(row.state) &&
              (settler === undefined || row.attempt?.settler === settler) &&
              (lease === undefined || row.lease === lease) &&
              (updatedBeforeMs === undefined || row.updatedAtMs < updatedBeforeMs) &&
              (updatedAfterMs === undefined || row.updatedAtMs >= updatedAfterMs),
          )
          .sort(isNewestFirst === true ? (a, b) => b.row - a.row : byMove)
        return rows.slice(0, limit).map(toRecord)
      }),

    refundOf: (row) => read(() => tables.refunds.get(row)),

    forgetAnswers: (updatedBeforeMs, limit) =>
      write('visible', () => {
        const old = payments
          .values()
          .filter(
            ({ answer, state, updatedAtMs }) =>
              answer !== null && state !== 'settling' && state !== 'pending' && updatedAtMs < updatedBeforeMs,
          )
          .slice(0, limit)
        for (const row of old) put({ ...row, answer: null })
        return old.length
      }),

    forgetSigned: (updatedBeforeMs, afterRow, limit) =>
      write('visible', () => {
        const left = payments.values().filter((one) => one.row > afterRow && one.payload !== '{}')
        const page = left.slice(0, limit)
        const last = page.findLastIndex(({ claimedAtMs }) => claimedAtMs < updatedBeforeMs)
        const old = page.slice(0, last + 1)
        for (const row of old) {
          if (!isSignedOver(row, updatedBeforeMs)) continue
          const attempt = row.network.startsWith('solana:') ? row.attempt : null
          put({ ...row, payload: '{}', attempt })
        }
        return old.at(-1)?.row ?? 0
      }),

    forgetDelivered: (claimedBeforeMs, afterRow, limit) =>
      write('visible', () => {
        const isOld = ({ claimedAtMs }: PaymentRow) => claimedAtMs < claimedBeforeMs
        const page = payments
          .values()
          .filter(({ row, answer }) => row > afterRow && answer !== null)
          .slice(0, limit)
        const looked = page.slice(0, page.findLastIndex(isOld) + 1)
        for (const row of looked) if (row.state === 'delivered' && isOld(row)) put({ ...row, answer: null })
        return looked.at(-1)?.row ?? 0
      }),
  }
}

/** Whether what was signed is needed by nobody any more, see the port. */
function isSignedOver(
  { state, updatedAtMs, dueAtMs, transaction, network, attempt }: PaymentRow,
  updatedBeforeMs: number,
): boolean {
  if (updatedAtMs >= updatedBeforeMs) return false
  if (state === 'rejected') return true
  if ((state !== 'delivered' && state !== 'refunded') || dueAtMs !== null || transaction === null)
    return false
  return !network.startsWith('solana:') || (attempt?.bytes ?? '') !== ''
}

const isOpen = (state: string): boolean => (openStates as readonly string[]).includes(state)
const isUnresolved = (state: string): boolean => (unresolvedStates as readonly string[]).includes(state)

const given = <T>(next: T | undefined, present: T): T => (next === undefined ? present : next)

export const canonical = (network: string, transaction: string): string =>
  network.startsWith('eip155:') ? transaction.toLowerCase() : transaction

const holds = (change: PaymentChange, row: PaymentRow): boolean =>
  change.from.includes(row.state) &&
  (change.lease === null || change.lease === row.lease) &&
  (change.errorWas === undefined || change.errorWas === row.errorReason) &&
  change.purchaseId === row.purchaseId

function isRefund({ refunds }: Tables, { noRefund }: PaymentChange): boolean {
  if (noRefund === undefined) return false
  const transaction = canonical(noRefund.network, noRefund.transaction)
  return refunds.values().some((one) => one.network === noRefund.network && one.transaction === transaction)
}

function isFreeRefund(tables: Tables, { row, refund }: PaymentChange): boolean {
  if (refund === undefined) return true
  const transaction = canonical(refund.network, refund.transaction)
  const isSame = (one: { network: string; transaction: string | null }) =>
    one.network === refund.network &&
    one.transaction !== null &&
    canonical(one.network, one.transaction) === transaction
  return !(
    tables.refunds.has(row) ||
    tables.refunds.values().some(isSame) ||
    tables.purchases
      .values()
      .some(({ purchase: { network, txHash } }) => isSame({ network, transaction: txHash })) ||
    refund.paymentKeys.some((key) => tables.rowOfKey.has(key))
  )
}

const transferOf = ({ network, txHash }: Purchase, event: string | null): string | undefined =>
  txHash === null || event === null ? undefined : `${network} ${canonical(network, txHash)} ${event}`

function book(tables: Tables, row: number, purchase: Purchase, event: string | null): void {
  const { purchases, rowOfPurchase, rowOfTransfer } = tables
  const present = purchases.get(row)
  const former = present && transferOf(present.purchase, present.event)
  if (former !== undefined) rowOfTransfer.delete(former)
  const next: Purchase =
    present === undefined
      ? purchase
      : { ...present.purchase, status: purchase.status, txHash: purchase.txHash }
  const transfer = transferOf(next, event)
  if ((rowOfPurchase.get(next.id) ?? row) !== row) throw alreadyBooked(purchase)
  if (transfer !== undefined) {
    if (rowOfTransfer.has(transfer)) throw alreadyBooked(purchase)
    rowOfTransfer.set(transfer, row)
  }
  rowOfPurchase.set(next.id, row)
  const isOwn =
    present?.isOwn ?? ownWallets(tables, next.storeId).has(canonical(next.network, next.buyerWallet))
  purchases.set(row, { purchase: next, event, isOwn })
}

function isNumberTaken({ payments }: Tables, { row, attempt }: PaymentChange): boolean {
  if (attempt == null || !hasAccountNumber(attempt)) return false
  const { settler, sequence, transaction } = attempt
  return payments.values().some((other) => {
    const { attempt: its, state } = other
    if (other.row === row || its?.settler !== settler || its.sequence !== sequence) return false
    return its.transaction !== transaction && (isUnresolved(state) || state === 'reorged')
  })
}

/** The wallets that sign in to a store, and those it is paid to. */
function ownWallets({ wallets, stores }: Tables, storeId: string): Set<string> {
  const signedIn = wallets.values().flatMap((one) => (one.storeId === storeId ? [one.address] : []))
  const payout = stores.get(storeId)?.payout
  const paidTo = [payout?.base?.toLowerCase(), payout?.solana].filter((address) => address != null)
  return new Set([...signedIn, ...paidTo])
}

function setStatus({ purchases, rowOfTransfer }: Tables, row: number, status: Purchase['status']): void {
  const booked = purchases.get(row)
  if (booked === undefined) return
  const transfer = transferOf(booked.purchase, booked.event)
  // What has left the chain holds no event there: the transaction may come back with another payment in that place.
  const isGone = status === 'reorged'
  if (isGone && transfer !== undefined) rowOfTransfer.delete(transfer)
  const event = isGone ? null : booked.event
  purchases.set(row, { ...booked, purchase: { ...booked.purchase, status }, event })
}

function toRecord({ answer, dueAtMs: _, ...row }: PaymentRow): PaymentRecord {
  return { ...row, hasAnswer: answer !== null }
}
