import pg from 'pg'
import type { Clock } from '../../../core/ports/clock.ts'
import { isStoreAway, storeUnavailable } from '../../../core/ports/refusals.ts'
import type { Durability } from '../../../core/ports/store/books.ts'
import type { Row } from '../../sql/row.ts'
import { nameOf } from '../ask.ts'
import { ConstraintError, errorOf, isDiskFull, isToRepeat } from '../failure.ts'
import { jsonText } from '../jsonText.ts'
import { lockOfKey } from './bookLocks.ts'
import type { ChangeRow } from './changeRow.ts'
import type { ClaimRow } from './claimRow.ts'

/** Writes of a group. More of them keep each other waiting for longer than what they share is worth. */
const MOST_WRITES = 256
/** Bytes of answers in a group; a larger one goes alone. */
const MOST_BYTES = 4 * 1_048_576
/** A group that waited for another which waited for it is taken back whole, and done again. */
const MOST_TRIES = 5

/**
 * So long a claim waits to be sent, in ms: behind a group that a silent server does not answer, its buyer would hear nothing for as
 * long as a statement may take. One that was not sent is not there later either.
 */
const MOST_WAIT_MS = 1_500

/**
 * A full disk refuses one write and takes the next, which fits into a page that is there: so long after one was refused, in ms, the server
 * counts as full.
 */
const NO_ROOM_MS = 3_000

/** Groups of a kind that are on their way at once: the flush of one keeps nobody waiting who comes right after it. */
const mostGroups = { claim: 1, visible: 1, flushed: 2 } as const
type Kind = keyof typeof mostGroups

/** So many connections are enough for its groups. */
export const MOST_GROUPS = 4

/** What a claim came to: the number of its row, or the row of whoever has it. */
export type Claimed = number | Row

/**
 * Writes of the books in groups: what comes within one turn of the loop, and while the groups before are on their way, is one
 * round trip and one commit. One that is alone goes at once. A write that fails leaves its neighbours standing.
 *
 * Writes of this process about one row happen in the order in which they came; a claim has no row yet.
 */
export interface GroupCommit {
  claim(row: ClaimRow): Promise<Claimed>
  /**
   * Several changes in one commit.
   *
   * @returns whether each was done; an error where it broke a rule of the tables
   * @throws `store_unavailable`: nothing was committed, or (the connection was lost) it is not known
   */
  change(rows: readonly ChangeRow[], durability: Durability): Promise<(boolean | ConstraintError)[]>
  /** What the server last said when a write found no room on its disk, while that is so lately; undefined otherwise. */
  readonly noRoom: string | undefined
  /** Commits what was handed over; whoever comes later is refused. */
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
 * @param pool of its own: whoever reads keeps no payment waiting
 * @param storeNowMs stands in for the server's clock, in tests; null: the server's
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
  let isLookedFor = false
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
    // Whoever has waited longest goes first, and those of his kind with him.
    for (const kind of new Set(waiting.map((one) => one.kind))) {
      while (groups[kind] < mostGroups[kind] && groupsUnderWay < connections) {
        const group = take(kind)
        if (group.length === 0) break
        void send(kind, group)
      }
    }
    if (groupsUnderWay === 0 && waiting.length === 0) onIdle?.()
    if (waiting.length === 0 || isLookedFor) return
    isLookedFor = true
    setTimeout(refuseLate, MOST_WAIT_MS / 2).unref()
  }

  /** Claims that were not sent in time. */
  function refuseLate(): void {
    isLookedFor = false
    const lateMs = performance.now() - MOST_WAIT_MS
    const isLate = ({ kind, sinceMs }: Write) => kind === 'claim' && sinceMs <= lateMs
    const late = waiting.filter(isLate)
    waiting = waiting.filter((one) => !isLate(one))
    for (const one of late) one.reject(storeUnavailable('it does not answer'))
    schedule()
  }

  /** The next group of a kind: nothing whose row is under way, and nothing that came after a write of the same row. */
  function take(kind: Kind): Write[] {
    const group: Write[] = []
    const left: Write[] = []
    const passed = new Set<number>()
    let [writes, bytes, at] = [0, 0, 0]
    for (; at < waiting.length && writes < MOST_WRITES; at++) {
      const one = waiting[at]!
      const isHeldUp = one.changes.some(({ row }) => rowsUnderWay.has(row) || passed.has(row))
      if (one.kind === kind && !isHeldUp && (writes === 0 || bytes + one.bytes <= MOST_BYTES)) {
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

  /** Answers each write; where the whole group failed because of one of them, each is done by itself. */
  async function run(
    group: readonly Write[],
    writeAll: (group: readonly Write[]) => Promise<readonly unknown[]>,
  ): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        const results = await writeAll(group)
        for (const [i, one] of group.entries()) one.resolve(results[i] as never)
        return
      } catch (thrown) {
        const isDeadlock = isToRepeat(thrown)
        if (isDeadlock && tries < MOST_TRIES) continue
        const error = errorOf(thrown)
        if (isDiskFull(thrown)) noRoom = { atMs: performance.now(), message: (thrown as Error).message }
        if (group.length === 1 || (isStoreAway(error) && !isDeadlock)) {
          for (const one of group) one.reject(error)
          return
        }
        for (const one of group) await run([one], writeAll)
        return
      }
    }
  }

  async function claimAll(group: readonly Write[]): Promise<Claimed[]> {
    const claims = group.map(({ claim }, n) => ({ n, ...claim! }))
    const locks = [...new Set(claims.map(({ key }) => lockOfKey(key)))]
    const said = await ask('SELECT books_claim($1, $2, $3) AS said', [jsonText(claims), clock.now(), locks])
    const { won, lost } = said as Record<'won' | 'lost', [n: number, claimed: Claimed][]>
    const results: Claimed[] = []
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
    // Arrays of the database begin with 1.
    const rows = changes.map(({ fields, body }, i) => {
      if (body === undefined) return { n: i + 1, ...fields }
      bodies.push(body)
      length += body.length
      return { n: i + 1, ...fields, body_from: length - body.length, body_length: body.length }
    })
    const bytes = bodies.length === 0 ? null : Buffer.concat(bodies)
    const times = [clock.now(), storeNowMs()]
    const values = [jsonText(rows), bytes, ...times, isFlushed, locksOf(changes)]
    const { done, failed } = (await ask(
      'SELECT books_change($1, $2, $3, $4, $5, $6) AS said',
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

  /** One statement is one transaction: it is committed when it has answered. */
  async function ask(text: string, values: unknown[]): Promise<unknown> {
    const client = await pool.connect()
    try {
      const { rows } = await client.query({ name: nameOf(text), text, values })
      client.release()
      return rows[0].said
    } catch (error) {
      // What did not come from the server leaves the connection in the middle of something.
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
  /** By the number of the change, from 1. */
  readonly failed: Readonly<Record<number, readonly [constraint: string, message: string]>>
}

/** What the database locks before it begins; null where nothing needs more than its own row. */
function locksOf(changes: readonly ChangeRow[]): string | null {
  const [shared, alone] = [new Set<number>(), new Set<number>()]
  const [sessions, letGo] = [new Set<string>(), new Set<string>()]
  for (const one of changes) {
    for (const number of one.shared) shared.add(number)
    for (const number of one.alone) alone.add(number)
    if (one.sessionId !== undefined) sessions.add(one.sessionId)
    if (one.sessionId !== undefined && one.isLetGo) letGo.add(one.sessionId)
  }
  if (shared.size + alone.size + sessions.size === 0) return null
  return jsonText({ shared: [...shared], alone: [...alone], sessions: [...sessions], letGo: [...letGo] })
}
