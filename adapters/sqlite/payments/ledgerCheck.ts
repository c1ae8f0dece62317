import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { debtorOf, feesAccountOf, type LedgerEntry } from '../../../core/domain/ledger.ts'
import { chargedStates, unresolvedStates } from '../../../core/domain/payment.ts'
import type { LedgerEars, LedgerFindings } from '../../../core/ports/purchases.ts'
import { EVENTS_KEPT_MS, LISTENING_DOUBT_MS } from '../../../core/ports/webhooks.ts'
import { connectReader } from '../connect.ts'
import { reading } from '../failure.ts'
import type { Row } from '../statement.ts'
import { judgeSums } from '../sums/judgeSums.ts'
import { isSaleInLedger, toEntries } from './bookRows.ts'

/**
 * Rows of a table that are looked at as they stand at one moment. Then others get their turn, and the log may be copied back: a
 * look at all of a large file at once would keep everything that is written meanwhile.
 */
const ROWS_A_LOOK = 2_000

/** Findings of a kind that are listed; the others are counted, however much of a database is broken. */
const MOST_LISTED = 1_000

/** After every key of its kind. */
const [lastRow, lastText] = [Number.MAX_SAFE_INTEGER, '\u{10ffff}']

const list = (states: readonly string[]) => states.map((state) => `'${state}'`).join(', ')
const charged = list(chargedStates)

/** Looks at the rows after `from`, up to `to`. */
type Look = (from: SQLInputValue, to: SQLInputValue) => void
type Say = (finding: string) => void

/**
 * Reads the whole books, some rows at a time. What belongs to a payment changes in one commit with it, so that it is judged as it
 * stands at one moment however long the whole takes, and payments that settle meanwhile are neither half seen nor held up.
 */
export async function checkLedger(
  path: string,
  nowMs: number,
  { onProgress, onTransfer }: LedgerEars = {},
): Promise<LedgerFindings> {
  const database = reading(() => connectReader(path))
  try {
    database.exec('PRAGMA cache_size = -32000')
    const [broken, unbalanced] = [createList(), createList()]
    const counts = { purchases: 0, chargedPayments: 0, unresolvedPayments: 0, refundDue: 0 }
    const last = count(database, 'SELECT max(id) AS n FROM payments')
    await walk(database, 'payments', 'id', -lastRow, lastRow, (to) => onProgress?.('payments', to, last), [
      lookAtCounts(database, counts),
      lookAtPayments(database, broken.add),
      lookAtEntries(database, broken.add, unbalanced.add),
      lookAtSessionsOfPurchases(database, broken.add),
      lookAtEvents(database, nowMs, broken.add),
      ...(onTransfer === undefined ? [] : [lookAtTransfers(database, onTransfer)]),
    ])
    await walk(database, 'payment_sessions', 'id', '', lastText, (_, n) => onProgress?.('sessions', n), [
      lookAtSessions(database, broken.add),
      lookAtEventsOfSessions(database, nowMs, broken.add),
    ])
    await walk(database, 'ledger', 'purchase_id', '', lastText, (_, n) => onProgress?.('entries', n), [
      lookAtEntriesOfNobody(database, broken.add, unbalanced.add),
    ])
    await judgeSums(database, nowMs, broken.add)
    if (broken.others() > 0) broken.listed.push(`and ${broken.others()} more`)
    if (unbalanced.others() > 0)
      broken.listed.push(`and the entries of ${unbalanced.others()} more do not add up to zero`)
    return { ...counts, broken: broken.listed, unbalanced: unbalanced.listed }
  } finally {
    database.close()
  }
}

/**
 * Looks at a table in the order of its key, at some rows at a time and at what belongs beyond its last row; what comes meanwhile
 * may be among it.
 */
async function walk(
  database: DatabaseSync,
  table: string,
  key: string,
  first: SQLInputValue,
  last: SQLInputValue,
  onLook: (to: number, rows: number) => void,
  looks: readonly Look[],
): Promise<void> {
  const page = database.prepare(`SELECT max(k) AS end, count(*) AS n
    FROM (SELECT ${key} AS k FROM ${table} WHERE ${key} > ? ORDER BY ${key} LIMIT ${ROWS_A_LOOK})`)
  let from = first
  let rows = 0
  for (let isOver = false; !isOver; ) {
    reading(() => {
      database.exec('BEGIN')
      const { end, n } = page.get(from)!
      isOver = Number(n) < ROWS_A_LOOK
      const to = isOver ? last : (end as SQLInputValue)
      for (const look of looks) look(from, to)
      database.exec('COMMIT')
      from = to
      rows += Number(n)
    })
    if (!isOver) onLook(Number(from), rows)
    await setImmediate()
  }
}

type Counts = {
  -readonly [Name in 'purchases' | 'chargedPayments' | 'unresolvedPayments' | 'refundDue']: number
}

function lookAtCounts(database: DatabaseSync, counts: Counts): Look {
  const payments = database.prepare(`
    SELECT state, count(*) AS n FROM payments WHERE id > ? AND id <= ? GROUP BY state`)
  const purchases = database.prepare(`
    SELECT count(*) AS n FROM purchases WHERE payment_id > ? AND payment_id <= ? AND status <> 'reorged'`)
  const isOneOf = (states: readonly string[], state: unknown) => states.includes(String(state))
  return (from, to) => {
    counts.purchases += Number(purchases.get(from, to)!['n'])
    for (const { state, n } of payments.all(from, to)) {
      if (isOneOf(chargedStates, state)) counts.chargedPayments += Number(n)
      if (isOneOf(unresolvedStates, state)) counts.unresolvedPayments += Number(n)
      if (state === 'refund_due') counts.refundDue += Number(n)
    }
  }
}

/** Every charged payment has its purchase in the same state, unless it landed late; and the other way round. */
function lookAtPayments(database: DatabaseSync, say: Say): Look {
  const orphans = database.prepare(`
    SELECT lower(hex(p.key)) AS key, p.state, u.id, u.status FROM payments p LEFT JOIN purchases u ON u.payment_id = p.id
    WHERE p.id > ? AND p.id <= ? AND (p.state IN (${charged}) OR u.id IS NOT NULL)
      AND NOT (u.id IS NULL AND p.landed_late = 1)
      AND NOT (u.status IS NOT NULL AND u.status = p.state)
      AND NOT (u.status = 'reorged' AND p.state IN ('reorged', 'failed_final'))`)
  const unpaid = database.prepare(`
    SELECT lower(hex(p.key)) AS key FROM payments p
    WHERE p.id > ? AND p.id <= ? AND p.state = 'refunded' AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.payment_id = p.id)`)
  const paid = database.prepare(`
    SELECT lower(hex(p.key)) AS key, p.state, r.tx_hash FROM refunds r JOIN payments p ON p.id = r.payment_id
    WHERE r.payment_id > ? AND r.payment_id <= ? AND p.state <> 'refunded'`)
  const strangers = database.prepare(`
    SELECT u.id FROM purchases u WHERE u.payment_id > ? AND u.payment_id <= ?
      AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.id = u.payment_id)`)
  return (from, to) => {
    for (const { key, state, id, status } of orphans.iterate(from, to))
      say(
        id === null
          ? `payment ${key} is ${state} and has no purchase`
          : `payment ${key} is ${state}, its purchase ${id} is ${status}`,
      )
    for (const { key } of unpaid.iterate(from, to))
      say(`payment ${key} is refunded, and no transfer back is known`)
    for (const { key, state, tx_hash: back } of paid.iterate(from, to))
      say(`payment ${key} is ${state}, and ${back} has paid it back`)
    for (const { id } of strangers.iterate(from, to)) say(`purchase ${id} has no payment`)
  }
}

/**
 * Entries that can not be read, that are missing, that do not cancel out, or that say something else of the fees owed than the
 * purchase, by which they are billed. Most are word for word those of a sale, which SQLite compares by itself; the others are added
 * up here, because amounts may be larger than its integers.
 */
function lookAtEntries(database: DatabaseSync, say: Say, sayUnbalanced: Say): Look {
  const unusual = database.prepare(`
    SELECT u.id, u.store_id, u.status, u.amount_atomic, u.fee_atomic FROM purchases u
    WHERE u.payment_id > ? AND u.payment_id <= ?
      AND NOT (u.status NOT IN ('reorged', 'refunded') AND ${isSaleInLedger('u')})`)
  const moves = database.prepare('SELECT entries FROM ledger WHERE purchase_id = ? ORDER BY move')
  return (from, to) => {
    for (const purchase of unusual.iterate(from, to)) {
      const id = String(purchase['id'])
      const texts = moves.all(id)
      if (texts.length === 0) say(`purchase ${id} has no ledger entries`)
      else judgeEntries(id, texts, purchase, say, sayUnbalanced)
    }
  }
}

/** The same of what no purchase belongs to. */
function lookAtEntriesOfNobody(database: DatabaseSync, say: Say, sayUnbalanced: Say): Look {
  const strangers = database.prepare(`
    SELECT DISTINCT purchase_id AS id FROM ledger WHERE purchase_id > ? AND purchase_id <= ?
      AND NOT EXISTS (SELECT 1 FROM purchases u WHERE u.id = purchase_id)`)
  const moves = database.prepare('SELECT entries FROM ledger WHERE purchase_id = ? ORDER BY move')
  return (from, to) => {
    for (const { id } of strangers.iterate(from, to))
      judgeEntries(String(id), moves.all(id!), undefined, say, sayUnbalanced)
  }
}

function judgeEntries(
  id: string,
  moves: readonly Row[],
  purchase: Row | undefined,
  say: Say,
  sayUnbalanced: Say,
): void {
  let entries: LedgerEntry[]
  try {
    entries = moves.flatMap((move) => toEntries(id, String(move['entries'])))
  } catch {
    return say(`the ledger entries of ${id} can not be read`)
  }
  const sums = new Map<string, bigint>()
  for (const { network, asset, amountAtomic } of entries) {
    const unit = `${network} ${asset}`
    sums.set(unit, (sums.get(unit) ?? 0n) + amountAtomic)
  }
  if ([...sums.values()].some((sum) => sum !== 0n)) sayUnbalanced(id)
  if (purchase === undefined) return
  const { store_id: storeId, status } = purchase
  const account = debtorOf(String(storeId)) === undefined ? feesAccountOf(String(storeId)) : storeId
  const booked = entries.reduce((sum, one) => (one.account === account ? sum + one.amountAtomic : sum), 0n)
  const isBack = status === 'reorged' || status === 'refunded'
  const own = account === storeId ? String(purchase['amount_atomic']) : `-${purchase['fee_atomic']}`
  const said = isBack ? '0' : own === '-0' ? '0' : own
  if (String(booked) !== said)
    say(
      `purchase ${id} is ${status}, and its ledger entries say ${booked} of the fees owed where it says ${said}`,
    )
}

/**
 * A session is confirmed by a purchase of its own, and the other way round; what is being settled for one is on its way. What
 * pays fees counts also when its invoice has ended without it.
 */
function lookAtSessions(database: DatabaseSync, say: Say): Look {
  const sessions = database.prepare(`
    SELECT s.id, s.state, p.state AS payment, u.id AS purchase FROM payment_sessions s
      LEFT JOIN payments p ON p.id = s.payment_id LEFT JOIN purchases u ON u.payment_id = s.payment_id
    WHERE s.id > ? AND s.id <= ? AND CASE s.state
      WHEN 'confirmed' THEN u.id IS NULL OR u.id IS NOT s.purchase_id OR u.session_id IS NOT s.id
      WHEN 'open' THEN s.payment_id IS NOT NULL AND coalesce(p.state NOT IN (${list(unresolvedStates)}), 1)
      ELSE s.payment_id IS NOT NULL END`)
  return (from, to) => {
    for (const { id, state, payment, purchase } of sessions.iterate(from, to))
      say(
        `session ${id} is ${state}, its payment is ${payment ?? 'none'} with purchase ${purchase ?? 'none'}`,
      )
  }
}

function lookAtSessionsOfPurchases(database: DatabaseSync, say: Say): Look {
  const purchases = database.prepare(`
    SELECT u.id, u.session_id, s.state FROM purchases u LEFT JOIN payment_sessions s ON s.id = u.session_id
    WHERE u.payment_id > ? AND u.payment_id <= ? AND u.session_id IS NOT NULL AND u.status = 'delivered'
      AND u.store_id NOT LIKE '${feesAccountOf('')}%' AND (s.state IS NOT 'confirmed' OR s.purchase_id IS NOT u.id)`)
  return (from, to) => {
    for (const { id, session_id: session, state } of purchases.iterate(from, to))
      say(`purchase ${id} is delivered, its session ${session} is ${state ?? 'not there'}`)
  }
}

/** Endpoints `e` of a row's store, and of its link: each a look into the index, however many links have one. */
const endpointsOf = (of: string) =>
  ['e.link_id IS NULL', `e.link_id = ${of}.link_id`].map(
    (which) => `webhook_endpoints e ON e.store_id = ${of}.store_id AND ${which}`,
  )

/** From when on an endpoint `e` has to have heard of what happened. */
const heardSince = (nowMs: number) =>
  `max(e.listening_since_ms + ${LISTENING_DOUBT_MS}, ${nowMs - EVENTS_KEPT_MS + LISTENING_DOUBT_MS})`

/** Every purchase that an endpoint listened for has its event, as long as events are kept. */
function lookAtEvents(database: DatabaseSync, nowMs: number, say: Say): Look {
  const purchases = endpointsOf('u').map((endpoints) =>
    database.prepare(`
      SELECT u.id, e.id AS endpoint FROM purchases u CROSS JOIN ${endpoints}
      WHERE u.payment_id > ? AND u.payment_id <= ? AND u.created_at_ms > ${heardSince(nowMs)}
        AND e.disabled_at_ms IS NULL AND instr(e.kinds, '"purchase.confirmed"') > 0
        AND NOT EXISTS (
          SELECT 1 FROM webhook_events v WHERE v.kind = 'purchase.confirmed' AND v.purchase_id = u.id)`),
  )
  return (from, to) => {
    for (const { id, endpoint } of purchases.flatMap((some) => some.all(from, to)))
      say(`purchase ${id} has no event, and the webhook ${endpoint} should hear of it`)
  }
}

/** The same of sessions that were confirmed, or have expired. */
function lookAtEventsOfSessions(database: DatabaseSync, nowMs: number, say: Say): Look {
  // The words of the indexes webhook_events_session_…, so that they are used: a kind that is put together finds none.
  const isTold = (end: 'confirmed' | 'expired') =>
    `EXISTS (SELECT 1 FROM webhook_events v WHERE v.kind = 'payment.${end}' AND v.session_id = s.id)`
  const sessions = endpointsOf('s').map((endpoints) =>
    database.prepare(`
      SELECT s.id, s.state, e.id AS endpoint FROM payment_sessions s CROSS JOIN ${endpoints}
      WHERE s.id > ? AND s.id <= ? AND s.state IN ('confirmed', 'expired') AND s.ended_at_ms > ${heardSince(nowMs)}
        AND e.disabled_at_ms IS NULL AND instr(e.kinds, '"payment.' || s.state || '"') > 0
        AND NOT CASE s.state WHEN 'confirmed' THEN ${isTold('confirmed')} ELSE ${isTold('expired')} END`),
  )
  return (from, to) => {
    for (const { id, state, endpoint } of sessions.flatMap((some) => some.all(from, to)))
      say(`session ${id} is ${state} without an event, and the webhook ${endpoint} should hear of it`)
  }
}

/** Every transfer that should be on chain: of purchases, and of payments that landed after they were given up. */
function lookAtTransfers(database: DatabaseSync, onTransfer: NonNullable<LedgerEars['onTransfer']>): Look {
  const transfers = database.prepare(`
    SELECT network, tx_hash, id FROM purchases
      WHERE payment_id > ?1 AND payment_id <= ?2 AND status <> 'reorged' AND tx_hash IS NOT NULL
    UNION ALL
    SELECT network, coalesce(tx_hash, tx, ''), purchase_id FROM payments LEFT JOIN attempts ON payment_id = id
      WHERE id > ?1 AND id <= ?2 AND landed_late = 1 AND state IN (${charged})`)
  return (from, to) => {
    for (const { network, tx_hash: transaction, id } of transfers.iterate(from, to))
      onTransfer({ network: String(network), transaction: String(transaction), purchaseId: String(id) })
  }
}

function createList(): { readonly listed: string[]; add: Say; others(): number } {
  const listed: string[] = []
  let others = 0
  return {
    listed,
    add(finding) {
      if (listed.length < MOST_LISTED) listed.push(finding)
      else others++
    },
    others: () => others,
  }
}

const count = (database: DatabaseSync, sql: string): number =>
  reading(() => Number(database.prepare(sql).get()!['n']))
