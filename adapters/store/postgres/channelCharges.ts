import type { Channels } from '../../../core/ports/store/channels.ts'
import { bytesOf, HOUR_MS } from '../repositories/channels.ts'
import type { Database } from './database.ts'
import { queryRows } from './query.ts'

/**
 * One statement is one transaction and one round trip. The channel's row is locked first, as by every other method, and the sum's
 * row last. The amounts are text, because they can exceed 64 bits.
 */
const charge = `
  WITH charged AS (
    UPDATE channels SET charged = $1, signature = $2, unclaimed_since_ms = coalesce(unclaimed_since_ms, $3)
    WHERE id = $4 AND charged = $5 AND owner = $6 RETURNING id
  ), kept AS (
    INSERT INTO channel_responses (id, request_hash, status, headers, media_type, body, receipt)
    SELECT id, $7, $8, $9, $10, $11, $12 FROM charged
    ON CONFLICT (id) DO UPDATE SET request_hash = excluded.request_hash, status = excluded.status,
      headers = excluded.headers, media_type = excluded.media_type, body = excluded.body, receipt = excluded.receipt
    RETURNING id
  ), added AS (
    INSERT INTO channel_sums (id, link_id, at, calls, amount)
    SELECT id, $13, $14, 1, $15 FROM kept
    ON CONFLICT (id, link_id, at) DO UPDATE SET calls = channel_sums.calls + 1,
      amount = (channel_sums.amount::numeric + excluded.amount::numeric)::text
  )
  SELECT 1 FROM charged`

const noBody = new Uint8Array()

/** Charges calls of channels. */
export const createChannelCharges =
  ({ pool, clock }: Pick<Database, 'pool' | 'clock'>): Channels['charge'] =>
  async ({ id, before, amountAtomic, response, ...given }) => {
    const nowMs = clock.now()
    const values = [
      String(before + amountAtomic),
      bytesOf(given.signature),
      nowMs,
      bytesOf(id),
      String(before),
      given.owner,
      given.requestHash,
      response?.status ?? 0,
      JSON.stringify(response?.headers ?? []),
      response?.mediaType ?? '',
      response?.body ?? noBody,
      response?.receipt ?? '',
      given.linkId,
      Math.floor(nowMs / HOUR_MS),
      String(amountAtomic),
    ]
    const charged = await queryRows(pool, charge, values)
    return charged.length > 0
  }
