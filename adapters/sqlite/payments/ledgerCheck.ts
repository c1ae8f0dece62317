import type { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { chargedStates, unresolvedStates } from '../../../core/domain/payment.ts'
import type { LedgerFindings } from '../../../core/ports/purchases.ts'
import { EVENTS_KEPT_MS, LISTENING_DOUBT_MS } from '../../../core/ports/webhooks.ts'
import { connectReader } from '../connect.ts'
import { reading } from '../failure.ts'

/** Rows read before other work of the process gets its turn. */
const ROWS_PER_TURN = 2_000

const list = (states: readonly string[]) => states.map((state) => `'${state}'`).join(', ')
const charged = list(chargedStates)

/**
 * Reads the whole books as they stand at one moment: a connection of its own holds one read transaction, so that
 * payments which settle meanwhile are neither half seen nor held up.
 */
export async function checkLedger(path: string, nowMs: number): Promise<LedgerFindings> {
  const database = reading(() => connectReader(path))
  try {
    database.exec('BEGIN')
    return {
      purchases: count(database, `SELECT count(*) AS n FROM purchases WHERE status <> 'reorged'`),
      chargedPayments: count(database, `SELECT count(*) AS n FROM payments WHERE state IN (${charged})`),
      unresolvedPayments: count(
        database,
        `SELECT count(*) AS n FROM payments WHERE state IN (${list(unresolvedStates)})`,
      ),
      refundDue: count(database, `SELECT count(*) AS n FROM payments WHERE state = 'refund_due'`),
      broken: [...(await broken(database)), ...(await untold(database, nowMs))],
      unbalanced: await unbalanced(database),
      transactions: await transactions(database),
    }
  } finally {
    database.close()
  }
}

/** Every charged payment has its purchase in the same state, unless it landed late; and the other way round. */
async function broken(database: DatabaseSync): Promise<string[]> {
  const found: string[] = []
  const orphans = `
    SELECT lower(hex(p.key)) AS key, p.state, u.id, u.status FROM payments p LEFT JOIN purchases u ON u.payment_id = p.id
    WHERE (p.state IN (${charged}) OR u.id IS NOT NULL)
      AND NOT (u.id IS NULL AND p.landed_late = 1)
      AND NOT (u.status IS NOT NULL AND u.status = p.state)
      AND NOT (u.status = 'reorged' AND p.state IN ('reorged', 'failed_final'))`
  for await (const { key, state, id, status } of inTurns(database, orphans)) {
    found.push(
      id === null
        ? `payment ${key} is ${state} and has no purchase`
        : `payment ${key} is ${state}, its purchase ${id} is ${status}`,
    )
  }
  const unpaid = `
    SELECT lower(hex(p.key)) AS key, p.state, r.tx_hash FROM payments p LEFT JOIN refunds r ON r.payment_id = p.id
    WHERE (p.state = 'refunded') <> (r.tx_hash IS NOT NULL)`
  for await (const { key, state, tx_hash: back } of inTurns(database, unpaid)) {
    found.push(
      back === null
        ? `payment ${key} is refunded, and no transfer back is known`
        : `payment ${key} is ${state}, and ${back} has paid it back`,
    )
  }
  const strangers = `SELECT id FROM purchases WHERE payment_id NOT IN (SELECT id FROM payments)`
  for await (const { id } of inTurns(database, strangers)) found.push(`purchase ${id} has no payment`)
  return found
}

/** Every purchase that an endpoint listened for has its event, as long as events are kept. */
async function untold(database: DatabaseSync, nowMs: number): Promise<string[]> {
  const found: string[] = []
  const purchases = `
    SELECT u.id, e.id AS endpoint FROM webhook_endpoints e JOIN purchases u ON u.store_id = e.store_id
      AND u.created_at_ms > max(e.listening_since_ms + ${LISTENING_DOUBT_MS}, ${nowMs - EVENTS_KEPT_MS + LISTENING_DOUBT_MS})
    WHERE e.disabled_at_ms IS NULL AND (e.link_id IS NULL OR e.link_id = u.link_id)
      AND instr(e.kinds, '"purchase.confirmed"') > 0
      AND NOT EXISTS (
        SELECT 1 FROM webhook_events v WHERE v.kind = 'purchase.confirmed' AND v.purchase_id = u.id)`
  for await (const { id, endpoint } of inTurns(database, purchases))
    found.push(`purchase ${id} has no event, and the webhook ${endpoint} should hear of it`)
  return found
}

/** Purchases whose entries do not cancel out. Added up here: amounts may be larger than SQLite's integers. */
async function unbalanced(database: DatabaseSync): Promise<string[]> {
  const found = new Set<string>()
  let group = ''
  let purchaseId = ''
  let sum = 0n
  const endGroup = () => {
    if (sum !== 0n) found.add(purchaseId)
    sum = 0n
  }
  const entries = `
    SELECT purchase_id, network, asset, amount_atomic FROM ledger_entries ORDER BY purchase_id, network, asset`
  for await (const row of inTurns(database, entries)) {
    const next = `${row['purchase_id']} ${row['network']} ${row['asset']}`
    if (next !== group) endGroup()
    group = next
    purchaseId = String(row['purchase_id'])
    sum += BigInt(String(row['amount_atomic']))
  }
  endGroup()
  return [...found]
}

/** Every transfer that should be on chain: of purchases, and of payments that landed after they were given up. */
async function transactions(database: DatabaseSync): Promise<LedgerFindings['transactions']> {
  const found: LedgerFindings['transactions'][number][] = []
  const transfers = `
    SELECT network, tx_hash, id FROM purchases WHERE status <> 'reorged' AND tx_hash IS NOT NULL
    UNION ALL
    SELECT network, coalesce(tx_hash, tx, ''), purchase_id FROM payments LEFT JOIN attempts ON payment_id = id
      WHERE landed_late = 1 AND state IN (${charged})`
  for await (const row of inTurns(database, transfers)) {
    found.push({
      network: String(row['network']),
      transaction: String(row['tx_hash']),
      purchaseId: String(row['id']),
    })
  }
  return found
}

const count = (database: DatabaseSync, sql: string): number =>
  reading(() => Number(database.prepare(sql).get()!['n']))

async function* inTurns(database: DatabaseSync, sql: string) {
  let rows = 0
  for (const row of reading(() => database.prepare(sql)).iterate()) {
    yield row
    if (++rows % ROWS_PER_TURN === 0) await setImmediate()
  }
}
