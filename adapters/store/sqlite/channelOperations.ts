import type { DatabaseSync } from 'node:sqlite'

/** The values of a charge, which cross to the writer thread faster as a flat list without bytes. */
export type ChargeArgs = readonly [
  total: readonly [
    charged: string,
    signature: string | null,
    /** Null if nothing is charged, so that the channel does not count as unclaimed. */
    nowMs: number | null,
    id: string,
    before: string,
    owner: number,
    signed: string,
  ],
  response: readonly [
    id: string,
    requestHash: string,
    voucherTotal: string,
    chargedAtMs: number,
    status: number,
    headers: string,
    mediaType: string,
    /** One character per byte. */
    body: string,
    receipt: string,
  ],
  sum: readonly [id: string, linkId: string, hour: number, amount: string],
]

/** The write of a charge, inside the writer's transaction. */
export function channelOperations(database: DatabaseSync) {
  // A sum can exceed the 64 bits of SQLite's integers.
  database.function('sum_of_digits', { deterministic: true }, (a, b) =>
    String(BigInt(a as string) + BigInt(b as string)),
  )
  const isLast = 'id = unhex(?4) AND charged = ?5 AND owner = ?6'
  // Nearly every charge finds unclaimed money. It leaves that column alone, because the column decides about an index entry.
  const chargeOn = database.prepare(`UPDATE channels SET charged = ?1, signed = ?7, signature = unhex(?2)
    WHERE ${isLast} AND unclaimed_since_ms IS NOT NULL`)
  const chargeFirst = database.prepare(`UPDATE channels SET charged = ?1, signed = ?7, signature = unhex(?2),
    unclaimed_since_ms = coalesce(unclaimed_since_ms, ?3) WHERE ${isLast}`)
  const keep = database.prepare(`
    INSERT INTO channel_responses (id, request_hash, voucher_total, charged_at_ms, status, headers, media_type, body, receipt)
    VALUES (unhex(?), ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET request_hash = excluded.request_hash, voucher_total = excluded.voucher_total,
      charged_at_ms = excluded.charged_at_ms, status = excluded.status, headers = excluded.headers,
      media_type = excluded.media_type, body = excluded.body, receipt = excluded.receipt`)
  const add = database.prepare(`
    INSERT INTO channel_sums (id, link_id, at, calls, amount) VALUES (unhex(?), ?, ?, 1, ?)
    ON CONFLICT (id, link_id, at) DO UPDATE
      SET calls = calls + 1, amount = sum_of_digits(amount, excluded.amount)`)
  return {
    /** @returns false if the row has another total or owner */
    chargeChannel([total, response, sum]: ChargeArgs): boolean {
      if (chargeOn.run(...total).changes === 0 && chargeFirst.run(...total).changes === 0) return false
      const [id, requestHash, voucherTotal, chargedAtMs, status, headers, mediaType, body, receipt] = response
      const bytes = Buffer.from(body, 'latin1')
      keep.run(id, requestHash, voucherTotal, chargedAtMs, status, headers, mediaType, bytes, receipt)
      add.run(...sum)
      return true
    },
  }
}
