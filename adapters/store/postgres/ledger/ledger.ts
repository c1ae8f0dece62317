import type pg from 'pg'
import { requireClaimable, type StoredResponse } from '../../../../core/domain/payment.ts'
import { alreadyBooked, numberTaken } from '../../../../core/ports/refusals.ts'
import { LARGEST_DELAY_MS, type Ledger, type PaymentChange } from '../../../../core/ports/store/ledger.ts'
import { keyBytes, selectPayment, toPaymentRecord } from '../../sql/sales/paymentRows.ts'
import { type ConstraintError, errorOf } from '../failure.ts'
import { nameOf, queryRows } from '../query.ts'
import { changeRow } from './changeRow.ts'
import { claimRow, type GroupCommit } from './groupCommit.ts'

/**
 * The database's time, which $1 replaces in tests. It is a subquery, so that the whole statement uses the same moment and can use
 * an index.
 */
const now = '(SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))'

const isDue = `(p.due_at_ms <= ${now} OR p.due_at_ms > ${now} + ${LARGEST_DELAY_MS})`
// Reads the first due payments of each state from the index payments_open.
const due = `SELECT d.* FROM unnest($2::text[]) AS wanted (state) CROSS JOIN LATERAL (
      ${selectPayment} WHERE p.due_at_ms IS NOT NULL AND p.state = wanted.state AND ${isDue}
        AND ($3::text IS NULL OR p.network = $3)
      ORDER BY p.due_at_ms, p.id LIMIT $4) AS d
    ORDER BY d.due_at_ms, d.id LIMIT $4`

/** The ledger in PostgreSQL. Functions of the schema (claims, bookChanges) check every condition. */
export function createLedger(
  pool: pg.Pool,
  group: Pick<GroupCommit, 'claim' | 'change'>,
  storeNowMs: () => number | null,
): Pick<Ledger, 'claim' | 'apply' | 'applyAll' | 'responseOf' | 'due'> {
  const respond = createResponses(pool)

  return {
    async claim(request) {
      requireClaimable(request)
      const claimed = await group.claim(claimRow(request))
      if (typeof claimed === 'number') return { won: true, row: claimed }
      // JSON has no bytes, so the server sends the key as `\x` and hex.
      const key = keyBytes(String(claimed['key']).slice(2))
      return { won: false, record: toPaymentRecord({ ...claimed, key }) }
    },

    async apply(change) {
      const [result] = await group.change([changeRow(change)], change.durability)
      if (typeof result === 'boolean') return result
      throw refusalOf(change, result!)
    },

    async applyAll(changes) {
      const isFlushed = changes.some(({ durability }) => durability === 'flushed')
      const results = await group.change(changes.map(changeRow), isFlushed ? 'flushed' : 'visible')
      return results.map((result, i) =>
        typeof result === 'boolean' ? result : refusalOf(changes[i]!, result),
      )
    },

    responseOf: respond,

    async due({ states, network = null, limit }) {
      const rows = await queryRows(pool, due, [storeNowMs(), states, network, limit])
      return rows.map(toPaymentRecord)
    },
  }
}

/** The error that the caller gets for a change that broke a rule of the tables. */
function refusalOf({ purchase }: PaymentChange, error: ConstraintError): Error {
  if (error.constraint === 'attempts_number') return numberTaken({ cause: error })
  const isRecorded = error.constraint === 'purchases_transfer' || error.constraint === 'purchases_id_key'
  return purchase !== undefined && isRecorded ? alreadyBooked(purchase, { cause: error }) : error
}

/** Bytes of a response per query. A larger response is read in pieces, so that other queries can run between them. */
const BYTES_AT_ONCE = 256 * 1024

const first = `SELECT status, headers, length(body) AS bytes, substring(body FROM 1 FOR ${BYTES_AT_ONCE}) AS piece
  FROM responses WHERE payment_id = $1`
const next = `SELECT substring(body FROM $2 FOR ${BYTES_AT_ONCE}) AS piece FROM responses WHERE payment_id = $1`

/** Reads stored responses. Concurrent requests for the same response share one read. */
function createResponses(pool: pg.Pool): (row: number) => Promise<StoredResponse | undefined> {
  const asked = new Map<number, Promise<StoredResponse | undefined>>()
  return (row) => {
    let response = asked.get(row)
    if (response === undefined) {
      response = read(pool, row).finally(() => asked.delete(row))
      asked.set(row, response)
    }
    return response
  }
}

async function read(pool: pg.Pool, row: number): Promise<StoredResponse | undefined> {
  let client: pg.PoolClient | undefined
  let isInDoubt = true
  try {
    client = await pool.connect()
    let response = await readFirst(client, row)
    if (response !== undefined && response.pieces[0]!.length < response.bytes) {
      // One transaction reads all pieces, so that they belong to the same response even if another response is written meanwhile.
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      response = await readFirst(client, row)
      if (response !== undefined) await readOthers(client, row, response)
      await client.query('COMMIT')
    }
    isInDoubt = false
    return (
      response && { status: response.status, headers: response.headers, body: Buffer.concat(response.pieces) }
    )
  } catch (error) {
    throw errorOf(error)
  } finally {
    // A connection that is still inside a transaction must not return to the pool.
    client?.release(isInDoubt)
  }
}

interface Begun {
  readonly status: number
  readonly headers: readonly string[]
  readonly bytes: number
  readonly pieces: Buffer[]
}

async function readFirst(client: pg.PoolClient, row: number): Promise<Begun | undefined> {
  const { rows } = await client.query({ name: nameOf(first), text: first, values: [row] })
  if (rows.length === 0) return undefined
  const { status, headers, bytes, piece } = rows[0]
  return { status, headers: JSON.parse(headers), bytes, pieces: [piece] }
}

async function readOthers(client: pg.PoolClient, row: number, { bytes, pieces }: Begun): Promise<void> {
  for (let from = pieces[0]!.length; from < bytes; from += BYTES_AT_ONCE) {
    const { rows } = await client.query({ name: nameOf(next), text: next, values: [row, from + 1] })
    pieces.push(rows[0].piece)
  }
}
