import type pg from 'pg'
import type { StoredAnswer } from '../../../core/domain/payment.ts'
import { nameOf } from '../ask.ts'
import { errorOf } from '../failure.ts'

/** So much of an answer is read at once: a larger one is read in pieces, between which others get their turn. */
const BYTES_AT_ONCE = 256 * 1024

const first = `SELECT status, headers, length(body) AS bytes, substring(body FROM 1 FOR ${BYTES_AT_ONCE}) AS piece
  FROM answers WHERE payment_id = $1`
const next = `SELECT substring(body FROM $2 FOR ${BYTES_AT_ONCE}) AS piece FROM answers WHERE payment_id = $1`

/** Reads stored answers: those who ask for one at once share the read and what it brings. */
export function createAnswers(pool: pg.Pool): (row: number) => Promise<StoredAnswer | undefined> {
  const asked = new Map<number, Promise<StoredAnswer | undefined>>()
  return (row) => {
    let answer = asked.get(row)
    if (answer === undefined) {
      answer = read(pool, row).finally(() => asked.delete(row))
      asked.set(row, answer)
    }
    return answer
  }
}

async function read(pool: pg.Pool, row: number): Promise<StoredAnswer | undefined> {
  let client: pg.PoolClient | undefined
  let isInDoubt = true
  try {
    client = await pool.connect()
    let answer = await readFirst(client, row)
    if (answer !== undefined && answer.pieces[0]!.length < answer.bytes) {
      // Its pieces are of one answer, whatever is written meanwhile.
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      answer = await readFirst(client, row)
      if (answer !== undefined) await readOthers(client, row, answer)
      await client.query('COMMIT')
    }
    isInDoubt = false
    return answer && { status: answer.status, headers: answer.headers, body: Buffer.concat(answer.pieces) }
  } catch (error) {
    throw errorOf(error)
  } finally {
    // Nobody wants one that is inside of a transaction.
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
