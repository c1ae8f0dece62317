import type pg from 'pg'
import type { Leases } from '../../../core/ports/store/leases.ts'
import { leaseRuns } from '../../sql/leaseRuns.ts'
import { hasEnded, pidOf, thisProcess } from '../../sql/processName.ts'
import type { Row } from '../../sql/row.ts'
import { ask } from '../ask.ts'
import { never, type ServerClock } from '../serverClock.ts'

/** How long a lease that is over is kept, so that a holder that was frozen may renew it while nobody took its name. */
const KEPT_MS = 10 * 60 * 1000

const now = '(SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))'
const sql = {
  take: 'SELECT leases_take($1, $2, $3, $4, $5, $6, $7, $8) AS id',
  holders: `SELECT ${now} AS now_ms, ARRAY(SELECT DISTINCT holder FROM leases WHERE holder IS NOT NULL) AS holders`,
  named: `SELECT id, holder, expires_at_ms - ${now} AS ends_in_ms FROM leases WHERE name = $2 AND ${leaseRuns(now)}`,
  prefixed: `SELECT name, holder FROM leases WHERE starts_with(name, $2) AND ${leaseRuns(now)}`,
  renew: `UPDATE leases SET ttl_ms = $2, expires_at_ms = ${now} + $2 WHERE id = $3 RETURNING ${now} AS now_ms`,
  release: 'DELETE FROM leases WHERE id = $1',
}

/** Leases in PostgreSQL, by the server's clock. Their numbers are a sequence's, which is never set back. */
export function createLeases(pool: pg.Pool, storeNowMs: () => number | null, clock: ServerClock): Leases {
  /** What says the server's time beside the rest. */
  async function askAndHear(text: string, values: readonly unknown[]): Promise<Row[]> {
    const askedAtMs = performance.now()
    const rows = await ask(pool, text, values)
    if (rows[0] !== undefined) clock.heard(Number(rows[0]['now_ms']), askedAtMs)
    return rows
  }

  return {
    async holderOf(name) {
      const [row] = await ask(pool, sql.named, [storeNowMs(), name])
      if (row === undefined || isDead(row)) return undefined
      return {
        id: Number(row['id']),
        endsInMs: Number(row['ends_in_ms']),
        process: processOf(row['holder'] as string | null),
      }
    },

    async heldNames(prefix) {
      const rows = await ask(pool, sql.prefixed, [storeNowMs(), prefix])
      return rows.filter((row) => !isDead(row)).map(({ name }) => String(name))
    },

    async take(name, ttlMs) {
      // Whoever was killed on this machine gives nothing back: the next process need not wait until its leases are over.
      const [found] = await askAndHear(sql.holders, [storeNowMs()])
      const ended = (found!['holders'] as string[]).filter(hasEnded)
      const { fromMs, toMs } = clock.window ?? never
      const [row] = await ask(pool, sql.take, [
        ...[name, ttlMs, storeNowMs(), thisProcess, ended, KEPT_MS],
        ...[fromMs, toMs],
      ])
      const id = row!['id'] as number | null
      return id === null ? undefined : { id, name }
    },

    async renew({ id }, ttlMs) {
      const rows = await askAndHear(sql.renew, [storeNowMs(), ttlMs, id])
      return rows.length > 0
    },

    async release({ id }) {
      await ask(pool, sql.release, [id])
    },
  }
}

const isDead = ({ holder }: Row): boolean => typeof holder === 'string' && hasEnded(holder)

/** A number means something on the machine whose process it is only. */
const processOf = (holder: string | null) =>
  holder === null ? null : { id: pidOf(holder), isThis: holder === thisProcess }
