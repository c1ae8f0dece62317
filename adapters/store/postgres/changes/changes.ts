import { setImmediate as nextTurn } from 'node:timers/promises'
import { sql } from 'kysely'
import { type Job, startJob } from '../../../../core/jobs/job.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { Change, Changes } from '../../../../core/ports/store/changes.ts'
import { createChanges } from '../../../memory/changes.ts'
import type { Database } from '../database.ts'
import { queryRows } from '../query.ts'
import type { Notices } from './notices.ts'

export interface PostgresChangesOptions {
  readonly notices: Pick<Notices, 'subscribe' | 'close'>
  readonly log: Log
  /** How often this process polls for changes, in ms. Polling is needed because notices can be lost. Default 500. */
  readonly pollMs?: number | undefined
  /** Age at which rows are deleted, in ms. The real age is between one and two of these periods. Default 10 minutes. */
  readonly keepMs?: number | undefined
}

/**
 * Maximum number of changes that listeners get in one turn of the event loop. The process serves calls between two turns, even
 * after many changes of other processes.
 */
const PUBLISHED_PER_PAGE = 200
const KEEP_MS = 10 * 60_000
/**
 * Shortest time between two reads after notices, in ms. An import of a thousand links must not cause a thousand reads in every
 * gateway.
 */
const MIN_GAP_MS = 10

/**
 * The changes after a position that snapshot $2 (null means now) sees and snapshot $1 did not. If there are none, the result is one
 * row without a change.
 */
const betweenQuery = `
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

interface Position {
  readonly xid: string
  readonly id: number
}

interface ChangeRow {
  readonly snapshot: string
  /** The number of the latest pruning. */
  readonly generation: number
  /** Null until a process has polled after a crash. */
  readonly run: string | null
  /** False when the database was restored from an older copy. */
  readonly is_later: boolean
  readonly xid: string | null
  readonly id: number
  readonly kind: string
  readonly username: string
  readonly slug: string
}

/**
 * Publishes this process's own changes at once, and the changes of other processes when their transactions commit. The changing
 * transaction writes each change as a row. A trigger sends a notice about the row. If the notice is lost, the next poll finds the
 * row.
 *
 * Rows get their ids before they commit, so a read of all ids above the last one would miss rows. Instead, a read returns the rows
 * that the present snapshot sees and the previous snapshot did not. So it returns each row once, regardless of open transactions.
 *
 * A listener gets this process's own changes twice, first when they are published and then when they are read.
 */
export async function startChanges(
  { pool, query }: Pick<Database, 'pool' | 'query'>,
  { notices, log, pollMs = 500, keepMs = KEEP_MS }: PostgresChangesOptions,
): Promise<Changes> {
  const local = createChanges()

  /** Listeners have got every change that this snapshot sees. */
  let seen = '1:1:'
  let [generation, run]: [number, string | null] = [0, null]
  let isClosed = false
  let prunedAtMs = Date.now()

  /** Reads the changes between two snapshots, from a position on. If `upTo` is null, it reads up to now. */
  const between = async (upTo: string | null, after: Position | null, limit = PUBLISHED_PER_PAGE) => {
    const values = [seen, upTo, after?.xid ?? '0', after?.id ?? 0, limit]
    return (await queryRows(pool, betweenQuery, values)) as unknown as readonly ChangeRow[]
  }

  /** Reads the first new rows, and the state of the database at that moment. */
  async function pollChanges(limit?: number) {
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
        ORDER BY username LIMIT ${PUBLISHED_PER_PAGE}`.execute(query)
      yield rows.map(({ username }) => ({ kind: 'store', username }))
      if (rows.length < PUBLISHED_PER_PAGE) return
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
    let rows = await pollChanges()
    const now = rows[0]!
    // This process has read every pruned row if it has read since the previous generation, because pruned rows are older than that.
    const isKnown = now.generation === generation || now.generation === generation + 1
    if (!isKnown || now.run !== run || !now.is_later) for await (const some of stores()) tell(some)
    while (!isClosed) {
      const written = rows.filter(({ xid }) => xid !== null)
      tell(written.map(toChange))
      const last = written.at(-1)
      if (written.length < PUBLISHED_PER_PAGE || last === undefined) break
      await nextTurn()
      rows = await between(now.snapshot, { xid: last.xid!, id: last.id })
    }
    // The snapshot is set only after the listeners got everything. After a lost connection the rows are read again. A repeated
    // change does no harm.
    ;({ snapshot: seen, generation, run } = now)
  }

  ;({ snapshot: seen, generation, run } = (await pollChanges(0))[0]!)

  async function poll(): Promise<void> {
    await take()
    if (isClosed || Date.now() - prunedAtMs < keepMs) return
    prunedAtMs = Date.now()
    await prune()
  }

  /** Prunes unless another process does. If several processes start at the same time, only one of them prunes. */
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

  let job: Job | undefined
  let endNotices = () => {}
  return {
    publish: local.publish,
    subscribe(listener) {
      // A process that runs one command caches nothing, so it does not poll.
      if (job === undefined && !isClosed) {
        const reading = startJob({
          name: 'read changes of other processes',
          everyMs: pollMs,
          minGapMs: MIN_GAP_MS,
          log,
          run: poll,
        })
        job = reading
        endNotices = notices.subscribe('changes', () => void reading.runNow())
      }
      return local.subscribe(listener)
    },
    async close() {
      isClosed = true
      void job?.stop()
      endNotices()
      await local.close()
    },
  }
}

const toChange = ({ kind, username, slug }: ChangeRow): Change =>
  kind === 'link' ? { kind, username, slug } : { kind: 'store', username }
