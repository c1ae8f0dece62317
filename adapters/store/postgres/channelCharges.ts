import type { ChannelId } from '../../../core/domain/channel.ts'
import type { ChannelCharge, Channels } from '../../../core/ports/store/channels.ts'
import { bytesOf, callOf, HOUR_MS } from '../repositories/channels.ts'
import type { Database } from './database.ts'
import { queryRows } from './query.ts'

/** Maximum number of charges in a statement. */
const MAX_CHARGES = 128
/** Maximum number of statements in flight. The second one is for calls that arrive while the first is written to the disk. */
const MAX_STATEMENTS = 2

/**
 * One statement is one transaction and one round trip. A channel's row is locked first, as by every other method, and its sum's row
 * last. The amounts are text, because they can exceed 64 bits.
 */
const charges = `
  WITH given AS (
    SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[], $7::bigint[], $8::text[],
      $9::text[], $10::bytea[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[])
      AS given (id, before, after, signature, owner, request_hash, status, headers, media_type, body, receipt, link_id, amount,
        signed, voucher_total)
  ), charged AS (
    UPDATE channels c SET charged = g.after, signed = g.signed, signature = g.signature,
      unclaimed_since_ms = coalesce(c.unclaimed_since_ms, CASE WHEN g.amount <> '0' THEN $16::bigint END)
    FROM given g WHERE c.id = g.id AND c.charged = g.before AND c.owner = g.owner RETURNING g.*
  ), kept AS (
    INSERT INTO channel_responses (id, request_hash, voucher_total, charged_at_ms, status, headers, media_type, body, receipt)
    SELECT id, request_hash, voucher_total, $16, status, headers, media_type, body, receipt FROM charged
    ON CONFLICT (id) DO UPDATE SET request_hash = excluded.request_hash, voucher_total = excluded.voucher_total,
      charged_at_ms = excluded.charged_at_ms, status = excluded.status, headers = excluded.headers,
      media_type = excluded.media_type, body = excluded.body, receipt = excluded.receipt
    RETURNING id
  ), added AS (
    INSERT INTO channel_sums (id, link_id, at, calls, amount)
    SELECT id, link_id, $17, 1, amount FROM charged JOIN kept USING (id)
    ON CONFLICT (id, link_id, at) DO UPDATE SET calls = channel_sums.calls + 1,
      amount = (channel_sums.amount::numeric + excluded.amount::numeric)::text
  )
  SELECT encode(id, 'hex') AS id FROM charged`

interface Waiting {
  readonly charge: ChannelCharge
  resolve(isCharged: boolean): void
  reject(error: unknown): void
}

/** Charges calls of channels. Calls of different channels that wait at the same time share a statement. */
export function createChannelCharges({ pool, clock }: Pick<Database, 'pool' | 'clock'>): Channels['charge'] {
  let waiting: Waiting[] = []
  let statements = 0

  function sendAll(): void {
    while (statements < MAX_STATEMENTS && waiting.length > 0) void send(take())
  }

  /** Takes the next charges, at most one of each channel. */
  function take(): ReadonlyMap<ChannelId, Waiting> {
    const group = new Map<ChannelId, Waiting>()
    const left: Waiting[] = []
    for (const one of waiting) {
      if (group.size === MAX_CHARGES || group.has(one.charge.id)) left.push(one)
      else group.set(one.charge.id, one)
    }
    waiting = left
    return group
  }

  async function send(group: ReadonlyMap<ChannelId, Waiting>): Promise<void> {
    statements++
    try {
      const given = [...group.values()].map(({ charge }) => charge)
      const rows = await queryRows(pool, charges, valuesOf(given, clock.now()))
      const charged = new Set(rows.map(({ id }) => `0x${id as string}`))
      for (const [id, { resolve }] of group) resolve(charged.has(id))
    } catch (error) {
      for (const { reject } of group.values()) reject(error)
    }
    statements--
    sendAll()
  }

  return (charge) =>
    new Promise((resolve, reject) => {
      if (waiting.push({ charge, resolve, reject }) === 1) setImmediate(sendAll)
    })
}

const noBody = Buffer.alloc(0)

/** The values of the statement: a list for each column. */
const valuesOf = (given: readonly ChannelCharge[], nowMs: number): unknown[] => [
  given.map(({ id }) => bytesOf(id)),
  given.map(({ before }) => String(before)),
  given.map(({ before, amountAtomic }) => String(before + amountAtomic)),
  given.map(({ signature }) => (signature === null ? null : bytesOf(signature))),
  given.map(({ owner }) => owner),
  given.map(callOf),
  given.map(({ response }) => response?.status ?? 0),
  given.map(({ response }) => JSON.stringify(response?.headers ?? [])),
  given.map(({ response }) => response?.mediaType ?? ''),
  given.map(({ response }) => response?.body ?? noBody),
  given.map(({ response }) => response?.receipt ?? ''),
  given.map(({ linkId }) => linkId),
  given.map(({ amountAtomic }) => String(amountAtomic)),
  given.map(({ signed }) => String(signed)),
  given.map(({ voucherTotal }) => String(voucherTotal)),
  nowMs,
  Math.floor(nowMs / HOUR_MS),
]
