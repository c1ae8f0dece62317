import { setImmediate as nextTurn } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Log } from '../../../core/ports/log.ts'
import type { Change, Changes } from '../../../core/ports/store/changes.ts'
import { createChanges } from '../../memory/changes.ts'
import { ask } from '../ask.ts'
import type { Database } from '../database.ts'
import type { Notices } from './notices.ts'

export interface PostgresChangesOptions {
  readonly notices: Pick<Notices, 'subscribe' | 'close'>
  readonly log: Log
  /** How often it is looked for changes that no notice told of. Default 500 ms. */
  readonly pollMs?: number | undefined
  /** Rows older than one to two of these are pruned. Default: 10 minutes. */
  readonly keepMs?: number | undefined
}

/** Changes that are told in one turn of the event loop: calls are answered between two turns, however many others made. */
const TOLD_IN_A_TURN = 200
const KEEP_MS = 10 * 60_000
/** Between two looks that notices ask for, in ms: an import of a thousand links is no thousand looks in every gateway. */
const GATHER_MS = 10

/** What snapshot $2 (now, where it is null) sees and $1 did not, after a place in it; one row without a change where there is none. */
const lookBetween = `
  SELECT s.snapshot::text, p.generation, (SELECT run FROM changes_run) AS run,
    pg_snapshot_xmax(s.snapshot) >= pg_snapshot_xmax($1::pg_snapshot) AS is_later,
    c.xid::text, c.id, c.kind, c.username, c.slug
  FROM (SELECT coalesce($2::pg_snapshot, pg_current_snapshot()) AS snapshot) s CROSS JOIN changes_pruned p
    LEFT JOIN LATERAL (
      SELECT * FROM changes
      WHERE xid >= pg_snapshot_xmin($1::pg_snapshot) AND NOT pg_visible_in_snapshot(xid, $1::pg_snapshot)
        AND pg_visible_in_snapshot(xid, s.snapshot) AND (xid, id) > ($3::xid8, $4::bigint)
      ORDER BY xid, id LIMIT $5::bigint) c ON true
  ORDER BY c.xid, c.id`

interface Place {
  readonly xid: string
  readonly id: number
}

interface ChangeRow {
  readonly snapshot: string
  /** Of what was pruned. */
  readonly generation: number
  /** Null until somebody has looked since a crash. */
  readonly run: string | null
  /** False of a database that was brought back from a copy. */
  readonly is_later: boolean
  readonly xid: string | null
  readonly id: number
  readonly kind: string
  readonly username: string
  readonly slug: string
}

/**
 * Changes of this process at once, and those of all others when their transactions commit: a trigger writes each in the
 * transaction of the change itself and notifies, and `pollMs` later it is found without a notice too.
 *
 * Rows get their ids before they commit, so "newer than the last" would miss some. What is read is what the present snapshot
 * sees and the one before did not: each row once, whatever else is open at the time. A listener hears this process's own changes
 * twice: when they are published, and when they are read.
 */
export async function startChanges(
  { pool, query }: Pick<Database, 'pool' | 'query'>,
  { notices, log, pollMs = 500, keepMs = KEEP_MS }: PostgresChangesOptions,
): Promise<Changes> {
  const local = createChanges()

  /** What has been told: everything that this snapshot sees. */
  let seen = '1:1:'
  let [generation, run]: [number, string | null] = [0, null]
  let isFailing = false
  let isPolling = false
  let isWanted = false
  let isClosed = false
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let gathering: NodeJS.Timeout | undefined
  let prunedAtMs = Date.now()

  /** What was written between two snapshots, from a place on; with `upTo` of null, to now. */
  const between = async (upTo: string | null, after: Place | null, limit = TOLD_IN_A_TURN) => {
    const values = [seen, upTo, after?.xid ?? '0', after?.id ?? 0, limit]
    return (await ask(pool, lookBetween, values)) as unknown as readonly ChangeRow[]
  }

  /** The first rows that are new, and what the database is at that moment. */
  async function look(limit?: number) {
    const rows = await between(null, null, limit)
    if (rows[0]!.run !== null) return rows
    await sql`INSERT INTO changes_run VALUES (1, gen_random_uuid()) ON CONFLICT DO NOTHING`.execute(query)
    return between(null, null, limit)
  }

  async function* stores(): AsyncGenerator<readonly Change[]> {
    for (let after = ''; ; ) {
      const { rows } = await sql<{ username: string }>`
        SELECT username FROM stores WHERE username > ${after}
        UNION SELECT username FROM username_redirects WHERE username > ${after}
        ORDER BY username LIMIT ${TOLD_IN_A_TURN}`.execute(query)
      yield rows.map(({ username }) => ({ kind: 'store', username }))
      if (rows.length < TOLD_IN_A_TURN) return
      after = rows.at(-1)!.username
    }
  }

  function tell(changes: readonly Change[]): void {
    const errors: unknown[] = []
    for (const change of changes) {
      if (isClosed) return
      try {
        local.publish(change)
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) log.warn({ err: errors[0] }, 'A listener of changes failed.')
  }

  async function take(): Promise<void> {
    let rows = await look()
    const now = rows[0]!
    // What is pruned was there when the generation before was made; whoever has read since then has had it.
    const isKnown = now.generation === generation || now.generation === generation + 1
    if (!isKnown || now.run !== run || !now.is_later) for await (const some of stores()) tell(some)
    while (!isClosed) {
      const written = rows.filter(({ xid }) => xid !== null)
      tell(written.map(toChange))
      const last = written.at(-1)
      if (written.length < TOLD_IN_A_TURN || last === undefined) break
      await nextTurn()
      rows = await between(now.snapshot, { xid: last.xid!, id: last.id })
    }
    // Not before: what a broken connection kept from us is read again, and hearing twice does no harm.
    ;({ snapshot: seen, generation, run } = now)
  }

  ;({ snapshot: seen, generation, run } = (await look(0))[0]!)

  async function poll(): Promise<void> {
    isWanted = true
    if (isPolling) return
    isPolling = true
    try {
      while (isWanted && !isClosed) {
        isWanted = false
        lookedAtMs = performance.now()
        await take()
      }
      isFailing = false
      if (!isClosed && Date.now() - prunedAtMs >= keepMs) {
        prunedAtMs = Date.now()
        await prune()
      }
    } catch (error) {
      if (!isFailing && !isClosed)
        log.warn({ err: error }, 'Taking in the changes of other processes failed; trying again.')
      isFailing = true
    } finally {
      isPolling = false
    }
  }

  /** The first of a burst is looked for at once, and what comes right after it together. */
  function hear(): void {
    if (gathering !== undefined || isClosed) return
    const waitMs = lookedAtMs + GATHER_MS - performance.now()
    if (waitMs <= 0) return void poll()
    gathering = setTimeout(() => {
      gathering = undefined
      void poll()
    }, waitMs).unref()
  }

  /** Of all processes that come at the same time, one prunes. */
  const prune = async () => {
    await sql`
      WITH pruned AS (
        UPDATE changes_pruned p SET generation = p.generation + 1, snapshot = pg_current_snapshot(),
          at_ms = extract(epoch FROM clock_timestamp()) * 1000
        FROM (SELECT snapshot FROM changes_pruned
          WHERE abs(extract(epoch FROM clock_timestamp()) * 1000 - at_ms) >= ${keepMs} FOR UPDATE SKIP LOCKED) was
        RETURNING was.snapshot)
      DELETE FROM changes USING pruned
        WHERE changes.xid < pg_snapshot_xmax(pruned.snapshot) AND pg_visible_in_snapshot(changes.xid, pruned.snapshot)`.execute(
      query,
    )
  }

  let timer: NodeJS.Timeout | undefined
  let endNotices = () => {}
  return {
    publish: local.publish,
    subscribe(listener) {
      // A process that runs one command and caches nothing looks for nothing.
      if (timer === undefined && !isClosed) {
        timer = setInterval(() => void poll(), pollMs).unref()
        endNotices = notices.subscribe('changes', hear)
      }
      return local.subscribe(listener)
    },
    async close() {
      isClosed = true
      clearInterval(timer)
      clearTimeout(gathering)
      endNotices()
      await local.close()
    },
  }
}

const toChange = ({ kind, username, slug }: ChangeRow): Change =>
  kind === 'link' ? { kind, username, slug } : { kind: 'store', username }
