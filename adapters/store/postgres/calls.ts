import pg from 'pg'
import { storeUnavailable } from '../../../core/ports/refusals.ts'
import type { Durability } from '../../../core/ports/store/ledger.ts'
import { boundedQueue } from '../../boundedQueue.ts'
import { type Call, type Calls, callsOver, type Methods, type Noun, stepsOf } from '../repositories/calls.ts'
import {
  createTemplates,
  Piece,
  type Reads,
  type Request,
  type Slot,
  type Steps,
} from '../repositories/transaction.ts'
import { storable } from './connect.ts'
import type { Database } from './database.ts'
import { errorOf, isToRepeat } from './failure.ts'
import { jsonText, nameOf, queryRows } from './query.ts'

/**
 * Maximum number of attempts for a call that deadlocks. The server ends only one of the two transactions, so nearly every call
 * succeeds at its second attempt.
 */
const MAX_ATTEMPTS = 5

const statementOf = createTemplates('postgres', (text) => ({ name: nameOf(text), text }), jsonText)

/** Locks the names in a fixed order, so that two transactions never deadlock. */
const hold = `SELECT pg_advisory_xact_lock(hashtextextended(current_schema()::text || ':' || name, 0)) FROM unnest($1::text[]) AS name`
/** The server's clock, in ms since 1970. In tests, a parameter that is not null replaces it. */
const storeTime = (parameter: string) =>
  `coalesce(${parameter}::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)`
const storeNow = `SELECT ${storeTime('$1')} AS ms`

/** Like {@link storeTime}, for a template. */
export function storeNowOf({ storeNowMs }: Pick<Database, 'storeNowMs'>): Piece {
  const text = (parameter: () => string) => storeTime(parameter())
  return new Piece('storeNow', { sqlite: text, postgres: text }, [storeNowMs()])
}

/**
 * Maximum number of calls that wait for a connection. A call takes milliseconds. One process alone writes up to 256 webhook
 * outcomes at once.
 */
const MAX_WAITING = 1_000

/** Repositories with calls that settlements wait for. */
const urgentNouns: ReadonlySet<string> = new Set<Noun>(['leases', 'payments', 'gasBook', 'channels'])

/**
 * Runs the repositories' methods, each in a transaction (READ COMMITTED) on a pooled connection. Writes of leases are flushed, so
 * that a crash of the server does not end the leases of running processes.
 * @param connections most connections for calls that no settlement waits for, so that the calls of a single seller never take all
 * connections
 */
export function callsTo(server: Server, connections: number): Calls {
  const inTurn = boundedQueue(connections, MAX_WAITING, () =>
    storeUnavailable('too many requests for the same'),
  )
  return callsOver((call, durability) => {
    const run = () => runCall(server, call, call.noun === 'leases' ? 'flushed' : durability)
    return urgentNouns.has(call.noun) ? run() : inTurn(run)
  })
}

type Server = Pick<Database, 'pool' | 'clock' | 'storeNowMs'>

/**
 * @param methods the methods that a call can run; tests replace them
 * @throws what the method throws; a `ConstraintError`; `store_unavailable`
 */
export async function runCall(
  server: Server,
  call: Call,
  durability: Durability,
  methods?: Methods,
): Promise<unknown> {
  const nowMs = server.clock.now()
  for (let attempts = 1; ; attempts++) {
    try {
      return await runOnce(server, stepsOf(call, nowMs, methods), durability)
    } catch (error) {
      if (attempts === MAX_ATTEMPTS || !isToRepeat(error)) throw error
    }
  }
}

async function runOnce(
  { pool, storeNowMs }: Server,
  steps: Steps<unknown>,
  durability: Durability,
): Promise<unknown> {
  const client = await pool.connect().catch((error: unknown) => {
    throw errorOf(error)
  })
  let isInDoubt = false
  const query: Query = (config) =>
    client.query(config).catch((error: unknown) => {
      // The error does not come from the server, so the state of the connection is unknown.
      if (!(error instanceof pg.DatabaseError)) isInDoubt = true
      throw errorOf(error)
    })
  try {
    // If a commit does not wait for the disk, a crash of the server may lose the whole transaction.
    await query(durability === 'visible' ? 'BEGIN; SET LOCAL synchronous_commit = off' : 'BEGIN')
    let step = steps.next()
    while (!step.done) step = steps.next(await respond(query, step.value, storeNowMs))
    await query('COMMIT')
    return step.value
  } catch (error) {
    if (!isInDoubt) await query('ROLLBACK').catch(() => {})
    throw error
  } finally {
    client.release(isInDoubt)
  }
}

type Query = (config: pg.QueryConfig | string) => Promise<pg.QueryResult>

async function respond(query: Query, request: Request, storeNowMs: () => number | null): Promise<unknown> {
  if (request.does === 'hold') return query(named(hold, [storable(request.names)]))
  if (request.does === 'storeNow') return (await query(named(storeNow, [storeNowMs()]))).rows[0].ms
  const { prepared, parameters } = statementOf(request.strings, request.slots)
  const { rows, rowCount } = await query({ ...prepared, values: parameters.map(storable) })
  return request.does === 'run' ? (rowCount ?? 0) : request.does === 'one' ? rows[0] : rows
}

const named = (text: string, values: unknown[]) => ({ name: nameOf(text), text, values })

/** Each read is a statement of its own. */
export function readsOf(pool: pg.Pool): Reads {
  const all = async (strings: TemplateStringsArray, slots: readonly Slot[]) => {
    const { prepared, parameters } = statementOf(strings, slots)
    return queryRows(pool, prepared.text, parameters)
  }
  return {
    one: async <Row>(strings: TemplateStringsArray, ...slots: Slot[]) =>
      (await all(strings, slots))[0] as Row | undefined,
    all: async <Row>(strings: TemplateStringsArray, ...slots: Slot[]) => (await all(strings, slots)) as Row[],
  }
}
