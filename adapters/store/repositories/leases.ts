import { CLOCK_BEHIND_MS, type Lease, type Leases } from '../../../core/ports/store/leases.ts'
import { hasEnded, pidOf, thisProcess } from '../sql/processName.ts'
import { type CallsOf, list, type Reads, row, type Slot, type Steps, type Tx } from './transaction.ts'

/**
 * How long an expired lease is stored, in ms. A holder that was frozen may renew it if no other process has taken the lease's name
 * meanwhile.
 */
const RETENTION_MS = 10 * 60 * 1000

export interface Taker {
  /** The name of this process. Null if the operating system does not name processes. */
  readonly holder: string | null
  /**
   * Processes that have ended. A killed process releases nothing, so the next process can take its leases at once instead of
   * waiting until they expire.
   */
  readonly ended: readonly string[]
  /** The times of the shared clock at which this process may judge leases. */
  readonly window: ClockWindow | undefined
}

export const leaseWrites = {
  *take(tx: Tx, name: string, ttlMs: number, { holder, ended, window }: Taker): Steps<Lease | undefined> {
    // The lock makes sure that a later lease gets a larger number.
    yield* tx.hold('leases')
    const nowMs = yield* tx.storeNowMs()
    if (window !== undefined && nowMs >= window.fromMs && nowMs <= window.toMs)
      yield* tx.run`DELETE FROM leases WHERE expires_at_ms - ttl_ms > ${nowMs + CLOCK_BEHIND_MS}
        OR expires_at_ms <= ${nowMs - RETENTION_MS} OR (name = ${name} AND expires_at_ms <= ${nowMs})`
    if (ended.length > 0) yield* tx.run`DELETE FROM leases WHERE holder IN ${list(ended)}`
    const taken = yield* tx.one<{ id: number }>`
      INSERT INTO leases ${row({ name, ttl_ms: ttlMs, expires_at_ms: nowMs + ttlMs, holder })}
      ON CONFLICT (name) DO NOTHING RETURNING id`
    return taken && { id: taken.id, name }
  },

  /** @returns the database's time; undefined when the lease is lost */
  *renew(tx: Tx, id: number, ttlMs: number): Steps<number | undefined> {
    const nowMs = yield* tx.storeNowMs()
    const renewed = yield* tx.run`
      UPDATE leases SET ttl_ms = ${ttlMs}, expires_at_ms = ${nowMs + ttlMs} WHERE id = ${id}`
    return renewed > 0 ? nowMs : undefined
  },

  *release(tx: Tx, id: number): Steps<void> {
    yield* tx.run`DELETE FROM leases WHERE id = ${id}`
  },
}

export interface ClockWindow {
  readonly fromMs: number
  readonly toMs: number
}

/** The clock that all processes share, as this process observes it. */
export interface SharedClock {
  /**
   * Called when this process asks the database for its time.
   * @returns a function that receives the response
   */
  startReading(): (nowMs: number) => void
  /**
   * The clock's time now. Undefined while this process cannot judge leases by the clock, because the clock was set recently or was
   * not observed for long enough.
   */
  readonly window: ClockWindow | undefined
}

/** A clock that never changes its window. */
export const steady: SharedClock = {
  startReading: () => () => {},
  window: { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER },
}

interface LeaseDeps {
  readonly calls: { readonly leases: CallsOf<typeof leaseWrites> }
  readonly reads: Reads
  /** The time of the shared clock, for a statement. */
  readonly storeNow: () => Slot
  readonly clock?: SharedClock
  /** The name of this process among all that share the database. Null if ended processes cannot be detected. */
  readonly holder?: string | null
}

interface Held {
  readonly id: number
  readonly name: string
  readonly ttl_ms: number
  readonly holder: string | null
  readonly ends_in_ms: number
}

const isHeld = ({ ttl_ms: ttlMs, holder, ends_in_ms: endsInMs }: Held): boolean =>
  endsInMs > 0 && endsInMs <= ttlMs + CLOCK_BEHIND_MS && (holder === null || !hasEnded(holder))

/** Leases. They are judged by the clock that all processes share. Their numbers come from a sequence that never goes back. */
export function createLeases(deps: LeaseDeps): Leases {
  const { calls, reads, storeNow, clock = steady, holder = thisProcess } = deps
  const { leases } = calls
  async function holders(): Promise<string[]> {
    const onMessage = clock.startReading()
    const found = await reads.all<{ now_ms: number; holder: string | null }>`
      SELECT ${storeNow()} AS now_ms, holder FROM (SELECT NULL AS holder UNION SELECT holder FROM leases) AS h`
    onMessage(found[0]!.now_ms)
    return found.flatMap(({ holder }) => holder ?? [])
  }

  return {
    async holderOf(name) {
      const found = await reads.one<Held>`
        SELECT *, expires_at_ms - ${storeNow()} AS ends_in_ms FROM leases WHERE name = ${name}`
      if (found === undefined || !isHeld(found)) return undefined
      const { id, ends_in_ms: endsInMs, holder: theirs } = found
      return {
        id,
        endsInMs,
        process: theirs === null ? null : { id: pidOf(theirs), isThis: theirs === holder },
      }
    },

    async heldNames(prefix) {
      const found = await reads.all<Held>`SELECT *, expires_at_ms - ${storeNow()} AS ends_in_ms FROM leases
        WHERE substr(name, 1, ${prefix.length}) = ${prefix}`
      return found.filter(isHeld).map(({ name }) => name)
    },

    async take(name, ttlMs) {
      const ended = (await holders()).filter(hasEnded)
      return leases.take(name, ttlMs, { holder, ended, window: clock.window })
    },

    async renew({ id }, ttlMs) {
      const onMessage = clock.startReading()
      const nowMs = await leases.renew(id, ttlMs)
      if (nowMs !== undefined) onMessage(nowMs)
      return nowMs !== undefined
    },

    release: ({ id }) => leases.release(id),
  }
}
