import type { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { debtorOf, feesAccountOf, type LedgerEntry } from '../../../core/domain/ledger.ts'
import { chargedStates, unresolvedStates } from '../../../core/domain/payment.ts'
import type { LedgerFindings } from '../../../core/ports/purchases.ts'
import { EVENTS_KEPT_MS, LISTENING_DOUBT_MS } from '../../../core/ports/webhooks.ts'
import { connectReader } from '../connect.ts'
import { reading } from '../failure.ts'
import type { Row } from '../statement.ts'
import { toEntries } from './bookRows.ts'

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
    const entries = await judgeEntries(database)
    return {
      purchases: count(database, `SELECT count(*) AS n FROM purchases WHERE status <> 'reorged'`),
      chargedPayments: count(database, `SELECT count(*) AS n FROM payments WHERE state IN (${charged})`),
      unresolvedPayments: count(
        database,
        `SELECT count(*) AS n FROM payments WHERE state IN (${list(unresolvedStates)})`,
      ),
      refundDue: count(database, `SELECT count(*) AS n FROM payments WHERE state = 'refund_due'`),
      broken: [
        ...(await broken(database)),
        ...(await astray(database)),
        ...(await untold(database, nowMs)),
        ...(await untoldSessions(database, nowMs)),
        ...entries.broken,
      ],
      unbalanced: entries.unbalanced,
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

/**
 * A session is confirmed by a purchase of its own, and the other way round; what is being settled for one is on its way. What
 * pays fees counts also when its invoice has ended without it.
 */
async function astray(database: DatabaseSync): Promise<string[]> {
  const found: string[] = []
  const sessions = `
    SELECT s.id, s.state, p.state AS payment, u.id AS purchase FROM payment_sessions s
      LEFT JOIN payments p ON p.id = s.payment_id LEFT JOIN purchases u ON u.payment_id = s.payment_id
    WHERE CASE s.state
      WHEN 'confirmed' THEN u.id IS NULL OR u.id IS NOT s.purchase_id OR u.session_id IS NOT s.id
      WHEN 'open' THEN s.payment_id IS NOT NULL AND coalesce(p.state NOT IN (${list(unresolvedStates)}), 1)
      ELSE s.payment_id IS NOT NULL END`
  for await (const { id, state, payment, purchase } of inTurns(database, sessions))
    found.push(
      `session ${id} is ${state}, its payment is ${payment ?? 'none'} with purchase ${purchase ?? 'none'}`,
    )
  const purchases = `
    SELECT u.id, u.session_id, s.state FROM purchases u LEFT JOIN payment_sessions s ON s.id = u.session_id
    WHERE u.session_id IS NOT NULL AND u.status = 'delivered' AND u.store_id NOT LIKE '${feesAccountOf('')}%'
      AND (s.state IS NOT 'confirmed' OR s.purchase_id IS NOT u.id)`
  for await (const { id, session_id: session, state } of inTurns(database, purchases))
    found.push(`purchase ${id} is delivered, its session ${session} is ${state ?? 'not there'}`)
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

/** The same of sessions that were confirmed, or have expired. */
async function untoldSessions(database: DatabaseSync, nowMs: number): Promise<string[]> {
  const found: string[] = []
  const sessions = `
    SELECT s.id, s.state, e.id AS endpoint FROM webhook_endpoints e JOIN payment_sessions s ON s.store_id = e.store_id
      AND s.state IN ('confirmed', 'expired')
      AND s.ended_at_ms > max(e.listening_since_ms + ${LISTENING_DOUBT_MS}, ${nowMs - EVENTS_KEPT_MS + LISTENING_DOUBT_MS})
    WHERE e.disabled_at_ms IS NULL AND (e.link_id IS NULL OR e.link_id = s.link_id)
      AND instr(e.kinds, '"payment.' || s.state || '"') > 0
      AND NOT EXISTS (
        SELECT 1 FROM webhook_events v WHERE v.kind = 'payment.' || s.state AND v.session_id = s.id)`
  for await (const { id, state, endpoint } of inTurns(database, sessions))
    found.push(`session ${id} is ${state} without an event, and the webhook ${endpoint} should hear of it`)
  return found
}

/**
 * Entries that can not be read, that are missing, that do not cancel out, or that say something else of the fees owed than the
 * purchase, by which they are billed. Added up here: amounts may be larger than SQLite's integers.
 */
async function judgeEntries(database: DatabaseSync): Promise<Pick<LedgerFindings, 'broken' | 'unbalanced'>> {
  const [broken, unbalanced]: [string[], string[]] = [[], []]
  let of: Row | undefined
  let entries: LedgerEntry[] = []
  const endPurchase = () => {
    if (of === undefined) return
    const { purchase_id: id, store_id: storeId, status } = of
    const sums = new Map<string, bigint>()
    for (const { network, asset, amountAtomic } of entries) {
      const unit = `${network} ${asset}`
      sums.set(unit, (sums.get(unit) ?? 0n) + amountAtomic)
    }
    if ([...sums.values()].some((sum) => sum !== 0n)) unbalanced.push(String(id))
    if (storeId === null) return
    const account = debtorOf(String(storeId)) === undefined ? feesAccountOf(String(storeId)) : storeId
    const booked = entries.reduce((sum, one) => (one.account === account ? sum + one.amountAtomic : sum), 0n)
    const isBack = status === 'reorged' || status === 'refunded'
    const own = account === storeId ? BigInt(String(of['amount_atomic'])) : -BigInt(String(of['fee_atomic']))
    const said = isBack ? 0n : own
    if (booked !== said)
      broken.push(
        `purchase ${id} is ${status}, and its ledger entries say ${booked} of the fees owed where it says ${said}`,
      )
  }
  const moves = `
    SELECT l.purchase_id, l.entries, u.store_id, u.status, u.amount_atomic, u.fee_atomic
    FROM ledger l LEFT JOIN purchases u ON u.id = l.purchase_id ORDER BY l.purchase_id, l.move`
  for await (const row of inTurns(database, moves)) {
    const id = String(row['purchase_id'])
    if (id !== of?.['purchase_id']) {
      endPurchase()
      of = row
      entries = []
    }
    try {
      entries.push(...toEntries(id, String(row['entries'])))
    } catch {
      broken.push(`the ledger entries of ${id} can not be read`)
      of = { ...row, store_id: null }
      entries = []
    }
  }
  endPurchase()
  const bare = `SELECT id FROM purchases WHERE id NOT IN (SELECT purchase_id FROM ledger)`
  for await (const { id } of inTurns(database, bare)) broken.push(`purchase ${id} has no ledger entries`)
  return { broken, unbalanced }
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
