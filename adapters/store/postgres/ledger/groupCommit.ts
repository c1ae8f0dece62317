import pg from 'pg'
import type { Clock } from '../../../../core/ports/clock.ts'
import { isDatabaseDown, storeUnavailable } from '../../../../core/ports/refusals.ts'
import type { ClaimRequest, Durability } from '../../../../core/ports/store/ledger.ts'
import type { Row } from '../../sql/rows.ts'
import { noLink } from '../../sql/sales/paymentRows.ts'
import { ConstraintError, errorOf, isDiskFull, isToRepeat } from '../failure.ts'
import { jsonText, nameOf } from '../query.ts'
import { type ChangeRow, lockOfIdentifier, lockOfKey } from './changeRow.ts'

/** Maximum number of writes in a group. In larger groups the writes delay each other for longer than the shared commit saves. */
const MAX_WRITES = 256
/** Maximum number of bytes of responses in a group. A larger response is written on its own. */
const MAX_BYTES = 4 * 1_048_576
/** Maximum number of attempts for a group. PostgreSQL rolls back a group that deadlocks with another one. */
const MAX_TRIES = 5

/**
 * How long a claim may wait until it is sent, in ms. Without the limit, the buyer would wait for the whole statement timeout if the
 * server does not respond to an earlier group. A claim that is refused here was not sent, so it is never committed later.
 */
const MAX_WAIT_MS = 1_500

/**
 * How long the server counts as full after a write found no space, in ms. A full disk may refuse one write and accept the next, if
 * the next one fits into an existing page.
 */
const NO_ROOM_MS = 3_000

/**
 * Maximum number of groups of a kind in flight. There are two flushed groups, so that a write that arrives during a flush does not
 * wait for its end.
 */
const maxGroups = { claim: 1, visible: 1, flushed: 2 } as const
type Kind = keyof typeof maxGroups

/** Maximum number of connections that all groups together use. */
export const MAX_GROUPS = 4

/** The result of a claim. It is the number of the new row, or the existing row with the same key. */
export type Claimed = number | Row

/**
 * Commits ledger writes in groups. Writes that arrive within one turn of the event loop, or while earlier groups are in flight,
 * share one round trip and one commit. A single write is sent at once. A write that fails does not affect other writes of its
 * group.
 *
 * Writes of this process to the same row keep their order. A claim has no row yet, so this does not concern claims.
 */
export interface GroupCommit {
  claim(row: ClaimRow): Promise<Claimed>
  /**
   * Commits several changes at once.
   *
   * @returns whether each change was done; an error for a change that broke a rule of the tables
   * @throws `store_unavailable` if nothing was committed, or if the connection was lost and the outcome is unknown
   */
  change(rows: readonly ChangeRow[], durability: Durability): Promise<(boolean | ConstraintError)[]>
  /** The server's message if a write recently found no space on the disk. Otherwise undefined. */
  readonly noRoom: string | undefined
  /** Commits the writes that were accepted, and refuses later writes. */
  close(): Promise<void>
}

interface Write {
  readonly kind: Kind
  readonly claim?: ClaimRow
  readonly changes: readonly ChangeRow[]
  readonly bytes: number
  readonly sinceMs: number
  resolve(value: never): void
  reject(error: Error): void
}

/**
 * @param pool the groups' own pool, so that reads never delay a payment
 * @param storeNowMs replaces the server's clock in tests; null means the server's clock
 */
export function createGroupCommit(pool: pg.Pool, clock: Clock, storeNowMs: () => number | null): GroupCommit {
  const connections = pool.options.max
  let waiting: Write[] = []
  const rowsUnderWay = new Set<number>()
  const groups = { claim: 0, visible: 0, flushed: 0 }
  let groupsUnderWay = 0
  let isScheduled = false
  let isClosed = false
  let onIdle: (() => void) | undefined
  let isPolled = false
  let noRoom = { atMs: Number.NEGATIVE_INFINITY, message: '' }

  function schedule(): void {
    if (isScheduled) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      sendAll()
    })
  }

  function sendAll(): void {
    // The kind with the longest waiting write comes first.
    for (const kind of new Set(waiting.map((one) => one.kind))) {
      while (groups[kind] < maxGroups[kind] && groupsUnderWay < connections) {
        const group = take(kind)
        if (group.length === 0) break
        void send(kind, group)
      }
    }
    if (groupsUnderWay === 0 && waiting.length === 0) onIdle?.()
    if (waiting.length === 0 || isPolled) return
    isPolled = true
    setTimeout(refuseLate, MAX_WAIT_MS / 2).unref()
  }

  /** Refuses claims that were not sent in time. */
  function refuseLate(): void {
    isPolled = false
    const lateMs = performance.now() - MAX_WAIT_MS
    const isLate = ({ kind, sinceMs }: Write) => kind === 'claim' && sinceMs <= lateMs
    const late = waiting.filter(isLate)
    waiting = waiting.filter((one) => !isLate(one))
    for (const one of late) one.reject(storeUnavailable('it does not respond'))
    schedule()
  }

  /**
   * Takes the next group of a kind. It leaves out a write if the row is in flight, or if another write of the same row is waiting
   * before it.
   */
  function take(kind: Kind): Write[] {
    const group: Write[] = []
    const left: Write[] = []
    const passed = new Set<number>()
    let [writes, bytes, at] = [0, 0, 0]
    for (; at < waiting.length && writes < MAX_WRITES; at++) {
      const one = waiting[at]!
      const isHeldUp = one.changes.some(({ row }) => rowsUnderWay.has(row) || passed.has(row))
      if (one.kind === kind && !isHeldUp && (writes === 0 || bytes + one.bytes <= MAX_BYTES)) {
        group.push(one)
        writes += Math.max(1, one.changes.length)
        bytes += one.bytes
      } else {
        left.push(one)
        for (const { row } of one.changes) passed.add(row)
      }
    }
    if (group.length > 0) waiting = left.concat(waiting.slice(at))
    return group
  }

  async function send(kind: Kind, group: readonly Write[]): Promise<void> {
    groups[kind]++
    groupsUnderWay++
    for (const { changes } of group) for (const { row } of changes) rowsUnderWay.add(row)
    await run(group, kind === 'claim' ? claimAll : (some) => changeAll(some, kind === 'flushed'))
    for (const { changes } of group) for (const { row } of changes) rowsUnderWay.delete(row)
    groups[kind]--
    groupsUnderWay--
    schedule()
  }

  /**
   * Runs a group and resolves each of its writes. A write without a result joins the next group. If one write made the whole group
   * fail, each write runs on its own.
   */
  async function run(
    group: readonly Write[],
    writeAll: (group: readonly Write[]) => Promise<readonly unknown[]>,
  ): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        const results = await writeAll(group)
        const undone = group.filter((_, i) => results[i] === undefined)
        for (const [i, one] of group.entries()) if (results[i] !== undefined) one.resolve(results[i] as never)
        waiting = undone.concat(waiting)
        return
      } catch (thrown) {
        const isDeadlock = isToRepeat(thrown)
        if (isDeadlock && tries < MAX_TRIES) continue
        const error = errorOf(thrown)
        if (isDiskFull(thrown)) noRoom = { atMs: performance.now(), message: (thrown as Error).message }
        if (group.length === 1 || (isDatabaseDown(error) && !isDeadlock)) {
          for (const one of group) one.reject(error)
          return
        }
        for (const one of group) await run([one], writeAll)
        return
      }
    }
  }

  /** @returns undefined for a claim whose identifier became free only by this transaction, or has no holder yet */
  async function claimAll(group: readonly Write[]): Promise<(Claimed | undefined)[]> {
    const claims = group.map(({ claim }, n) => ({ n, ...claim! }))
    const shared = [...new Set(claims.map(({ key }) => lockOfKey(key)))]
    const alone = claims.filter(({ identifier }) => identifier !== undefined).map(lockOfIdentifier)
    const values = [jsonText(claims), clock.now(), shared, alone]
    const result = await queryValue('SELECT books_claim($1, $2, $3, $4) AS value', values)
    const { won, lost } = result as Record<'won' | 'lost', [n: number, claimed: Claimed][]>
    const results: (Claimed | undefined)[] = []
    for (const [n, claimed] of [...won, ...lost]) results[n] = claimed
    return results
  }

  async function changeAll(
    group: readonly Write[],
    isFlushed: boolean,
  ): Promise<(boolean | ConstraintError)[][]> {
    const changes = group.flatMap((one) => one.changes)
    const bodies: Uint8Array[] = []
    let length = 0
    // Arrays in PostgreSQL begin with 1.
    const rows = changes.map(({ fields, body }, i) => {
      if (body === undefined) return { n: i + 1, ...fields }
      bodies.push(body)
      length += body.length
      return { n: i + 1, ...fields, body_from: length - body.length, body_length: body.length }
    })
    const bytes = bodies.length === 0 ? null : Buffer.concat(bodies)
    const times = [clock.now(), storeNowMs()]
    const values = [jsonText(rows), bytes, ...times, isFlushed, locksOf(changes)]
    const { done, failed } = (await queryValue(
      'SELECT books_change($1, $2, $3, $4, $5, $6) AS value',
      values,
    )) as Changed
    let n = 0
    return group.map((one) =>
      one.changes.map(() => {
        const failure = failed[++n]
        return failure === undefined ? done[n - 1]! : new ConstraintError(...failure)
      }),
    )
  }

  /** Runs one statement. The statement is one transaction, so it is committed when the server has responded. */
  async function queryValue(text: string, values: unknown[]): Promise<unknown> {
    const client = await pool.connect()
    try {
      const { rows } = await client.query({ name: nameOf(text), text, values })
      client.release()
      return rows[0].value
    } catch (error) {
      // The error does not come from the server, so the state of the connection is unknown.
      client.release(!(error instanceof pg.DatabaseError))
      throw error
    }
  }

  function add<T>(write: Omit<Write, 'sinceMs' | 'resolve' | 'reject'>): Promise<T> {
    if (isClosed) return Promise.reject(storeUnavailable('it was closed'))
    return new Promise<T>((resolve, reject) => {
      waiting.push({ ...write, sinceMs: performance.now(), resolve, reject })
      schedule()
    })
  }

  return {
    claim: (claim) => add({ kind: 'claim', claim, changes: [], bytes: 0 }),
    async change(changes, kind) {
      if (changes.length === 0) return []
      return add({ kind, changes, bytes: changes.reduce((sum, { body }) => sum + (body?.length ?? 0), 0) })
    },
    get noRoom() {
      return performance.now() - noRoom.atMs < NO_ROOM_MS ? noRoom.message : undefined
    },
    async close() {
      if (isClosed) return
      isClosed = true
      if (groupsUnderWay > 0 || waiting.length > 0)
        await new Promise<void>((resolve) => {
          onIdle = resolve
        })
      await pool.end()
    },
  }
}

interface Changed {
  readonly done: readonly boolean[]
  /** Failures by the index of the change, counted from 1. */
  readonly failed: Readonly<Record<number, readonly [constraint: string, message: string]>>
}

/** Locks that the database function takes before it begins. Null if no change needs more than its own row. */
function locksOf(changes: readonly ChangeRow[]): string | null {
  const [shared, alone] = [new Set<number>(), new Set<number>()]
  const [sessions, released] = [new Set<string>(), new Set<string>()]
  for (const one of changes) {
    for (const number of one.shared) shared.add(number)
    for (const number of one.alone) alone.add(number)
    if (one.sessionId !== undefined) sessions.add(one.sessionId)
    if (one.sessionId !== undefined && one.isReleased) released.add(one.sessionId)
  }
  if (shared.size + alone.size + sessions.size === 0) return null
  return jsonText({
    shared: [...shared],
    alone: [...alone],
    sessions: [...sessions],
    released: [...released],
  })
}

/** A claim in the form that the database function `books_claim` takes: columns of its type `book_claim`. */
export const claimRow = (r: ClaimRequest) => ({
  key: r.key,
  network: r.network,
  asset: r.asset,
  payer: r.payer,
  nonce: r.nonce,
  pay_to: r.payTo,
  amount_atomic: r.amountAtomic.toString(),
  valid_before_ms: r.validBeforeMs,
  scheme: r.scheme,
  lease: r.lease,
  link_id: r.linkId ?? noLink,
  store_id: r.storeId,
  request_hash: r.requestHash,
  purchase_id: r.purchaseId,
  session_id: r.sessionId,
  payload: r.payload,
  identifier: r.identifier,
})

type ClaimRow = ReturnType<typeof claimRow>
