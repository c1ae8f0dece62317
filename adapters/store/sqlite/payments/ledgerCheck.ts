import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { feesAccountOf } from '../../../../core/domain/ledger.ts'
import { chargedStates, unresolvedStates } from '../../../../core/domain/payment.ts'
import type { LedgerEars, LedgerFindings } from '../../../../core/ports/store/purchases.ts'
import { DAY_MS } from '../../../../core/ports/store/stats.ts'
import { EVENT_RETENTION_MS, LISTENING_DOUBT_MS } from '../../../../core/ports/store/webhooks.ts'
import {
  createFindings,
  isSaleInLedger,
  judgeEntries,
  type Report,
  type TextSql,
} from '../../sql/sales/ledgerFindings.ts'
import { packed } from '../../sql/sales/paymentRows.ts'
import type { Packed } from '../../sql/schema.ts'
import { connectReader, type Database } from '../connect.ts'
import { reading } from '../failure.ts'
import { type DayOfSales, monthsOfSales } from '../rollups/daysOfSales.ts'
import { feesJudge } from '../rollups/feesCheck.ts'
import { salesJudge } from '../rollups/salesCheck.ts'
import type { Row } from '../statement.ts'
import { checkedDayNotes } from './checkedDayNotes.ts'

/**
 * Rows that the check reads at one moment. Other reads run between two portions, and the log can be copied back. Without portions,
 * everything written during the check would stay in the log.
 */
const ROWS_PER_PAGE = 2_000

/** A text that is greater than every key. */
const lastText = '\u{10ffff}'

const list = (states: readonly string[]) => states.map((state) => `'${state}'`).join(', ')
const charged = list(chargedStates)

/** Checks the rows after `from` and up to `to`. */
type PageCheck = (from: SQLInputValue, to: SQLInputValue) => void

/**
 * Checks the whole ledger, some rows at a time. The rows of a payment change in one commit and are read at one moment, so the check
 * sees no half-changed payment. A long check delays no payment.
 *
 * @param writer if given, the check skips days that were found right before and have not changed, and notes the days that it finds
 * right
 */
export async function checkLedger(
  path: string,
  nowMs: number,
  ears?: LedgerEars,
  writer?: Database['writer'],
): Promise<LedgerFindings> {
  const database = reading(() => connectReader(path))
  try {
    database.exec('PRAGMA cache_size = -32000')
    return await checkLedgerOn(database, nowMs, ears, writer)
  } finally {
    database.close()
  }
}

/** Like {@link checkLedger}, on an open connection. */
export async function checkLedgerOn(
  database: DatabaseSync,
  nowMs: number,
  { onProgress, onTransfer }: LedgerEars = {},
  writer?: Database['writer'],
): Promise<LedgerFindings> {
  const [broken, unbalanced] = [createFindings(), createFindings()]
  const notes = writer && checkedDayNotes(database, writer, nowMs)
  const counts: Counts = { purchases: 0, chargedPayments: 0, unresolvedPayments: 0, refundDue: 0 }
  let skippedDays = 0
  const last = count(database, 'SELECT max(id) AS n FROM payments')
  const checks = [
    checkCounts(database, counts),
    checkPayments(database, broken.add),
    checkEntries(database, broken.add, unbalanced.add),
    checkSessionsOfPurchases(database, broken.add),
    checkEvents(database, nowMs, broken.add),
    ...(onTransfer === undefined ? [] : [checkTransfers(database, onTransfer)]),
  ]
  const [sales, feesOf] = [salesJudge(database), feesJudge(database)]
  const found = () => broken.count() + unbalanced.count()
  const checkOnce = (check: () => readonly string[]) =>
    inTransaction(database, () => {
      for (const finding of check()) broken.add(finding)
    })

  async function checkDay({ day, from, to }: DayOfSales): Promise<void> {
    const span = { name: day, from, to, endMs: (day + 1) * DAY_MS }
    const right = notes?.days.right(span)
    if (right !== undefined) {
      skippedDays++
      counts.purchases += right.purchases
      counts.chargedPayments += right.chargedPayments
      counts.refundDue += right.refundDue
      return
    }
    await notes?.days.begin(span)
    const [before, foundBefore] = [{ ...counts }, found()]
    await walk(database, 'payments', 'id', from, to, (id) => onProgress?.('payments', id, last), checks)
    checkOnce(() => sales({ day, from, to }))
    if (to <= last) onProgress?.('payments', to, last)
    if (found() > foundBefore || counts.unresolvedPayments > before.unresolvedPayments) return
    await notes?.days.foundRight(span, {
      purchases: counts.purchases - before.purchases,
      chargedPayments: counts.chargedPayments - before.chargedPayments,
      refundDue: counts.refundDue - before.refundDue,
    })
  }

  for (const { month, days, ...stretch } of reading(() => monthsOfSales(database, nowMs))) {
    const span = { name: month, ...stretch }
    const fees = notes?.months.right(span) === undefined ? feesOf(month) : undefined
    const foundBefore = found()
    if (fees !== undefined) await notes?.months.begin(span)
    for (const day of days) {
      await checkDay(day)
      if (fees !== undefined) inTransaction(database, () => fees.add(day))
    }
    if (fees === undefined) continue
    checkOnce(fees.judge)
    if (found() === foundBefore)
      await notes?.months.foundRight(span, { purchases: 0, chargedPayments: 0, refundDue: 0 })
  }
  await walk(database, 'payment_sessions', 'id', '', lastText, (_, n) => onProgress?.('sessions', n), [
    checkSessions(database, broken.add),
    checkEventsOfSessions(database, nowMs, broken.add),
  ])
  // Only a full check finds entries without a purchase on skipped days.
  const since = skippedDays === 0 ? '' : firstIdAt(nowMs - EVENT_RETENTION_MS)
  await walk(database, 'ledger', 'purchase_id', since, lastText, (_, n) => onProgress?.('entries', n), [
    checkEntriesWithoutPayment(database, broken.add, unbalanced.add),
  ])
  await judgeViews(database, broken.add, (stores) => onProgress?.('stores', stores))
  if (broken.others() > 0) broken.listed.push(`and ${broken.others()} more`)
  if (unbalanced.others() > 0)
    broken.listed.push(`and the entries of ${unbalanced.others()} more do not add up to zero`)
  return { ...counts, skippedDays, broken: broken.listed, unbalanced: unbalanced.listed }
}

/** A text before every purchase id of that time. The ids begin with their time (RFC 9562, version 7). */
function firstIdAt(ms: number): string {
  const digits = Math.max(ms, 0).toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}`
}

function inTransaction(database: DatabaseSync, check: () => void): void {
  reading(() => {
    database.exec('BEGIN')
    try {
      check()
    } finally {
      database.exec('COMMIT')
    }
  })
}

/**
 * Checks a table in the order of its key, some rows at a time, together with the rows of other tables that belong to them. The
 * check may include rows that are added meanwhile.
 */
async function walk(
  database: DatabaseSync,
  table: string,
  key: string,
  first: SQLInputValue,
  last: SQLInputValue,
  onPage: (to: number, rows: number) => void,
  checks: readonly PageCheck[],
): Promise<void> {
  const page = database.prepare(`SELECT max(k) AS end, count(*) AS n
    FROM (SELECT ${key} AS k FROM ${table} WHERE ${key} > ? AND ${key} <= ? ORDER BY ${key} LIMIT ${ROWS_PER_PAGE})`)
  let from = first
  let rows = 0
  for (let isOver = false; !isOver; ) {
    reading(() => {
      database.exec('BEGIN')
      const { end, n } = page.get(from, last)!
      isOver = Number(n) < ROWS_PER_PAGE
      const to = isOver ? last : (end as SQLInputValue)
      for (const check of checks) check(from, to)
      database.exec('COMMIT')
      from = to
      rows += Number(n)
    })
    if (!isOver) onPage(Number(from), rows)
    await setImmediate()
  }
}

const inSqlite: TextSql = {
  matches: (text, what) => `${text} ${what === 'number' ? `GLOB '[1-9]*'` : `NOT GLOB '*[^0-9]*'`}`,
  position: (text, part) => `instr(${text}, ${part})`,
}

type Counts = {
  -readonly [Name in 'purchases' | 'chargedPayments' | 'unresolvedPayments' | 'refundDue']: number
}

function checkCounts(database: DatabaseSync, counts: Counts): PageCheck {
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

/** Checks that every charged payment has a purchase in the same state, and that every purchase has its payment. */
function checkPayments(database: DatabaseSync, report: Report): PageCheck {
  const orphans = database.prepare(`
    SELECT lower(hex(p.key)) AS key, p.state, u.id, u.status FROM payments p LEFT JOIN purchases u ON u.payment_id = p.id
    WHERE p.id > ? AND p.id <= ? AND (p.state IN (${charged}) OR u.id IS NOT NULL)
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
      report(
        id === null
          ? `payment ${key} is ${state} and has no purchase`
          : `payment ${key} is ${state}, its purchase ${id} is ${status}`,
      )
    for (const { key } of unpaid.iterate(from, to))
      report(`payment ${key} is refunded, and no transfer back is known`)
    for (const { key, state, tx_hash: back } of paid.iterate(from, to))
      report(`payment ${key} is ${state}, and ${back} has paid it back`)
    for (const { id } of strangers.iterate(from, to)) report(`purchase ${id} has no payment`)
  }
}

/**
 * Finds entries that cannot be read, are missing, do not add up to zero, or disagree with the purchase about the fees owed. Most
 * entries are exactly the text of a sale, so SQLite compares them. This process adds up the others, because amounts may exceed
 * SQLite's integers.
 */
function checkEntries(database: DatabaseSync, report: Report, reportUnbalanced: Report): PageCheck {
  const unusual = database.prepare(`
    SELECT u.id, u.store_id, u.status, u.amount_atomic, u.fee_atomic FROM purchases u
    WHERE u.payment_id > ? AND u.payment_id <= ?
      AND NOT (u.status NOT IN ('reorged', 'refunded') AND ${isSaleInLedger('u', inSqlite)})`)
  const moves = database.prepare('SELECT entries FROM ledger WHERE purchase_id = ? ORDER BY move')
  return (from, to) => {
    for (const purchase of unusual.iterate(from, to)) {
      const id = String(purchase['id'])
      const texts = moves.all(id)
      if (texts.length === 0) report(`purchase ${id} has no ledger entries`)
      else judgeEntries(id, texts.map(textOf), purchase, report, reportUnbalanced)
    }
  }
}

/** Like {@link checkEntries}, for entries without a purchase. */
function checkEntriesWithoutPayment(
  database: DatabaseSync,
  report: Report,
  reportUnbalanced: Report,
): PageCheck {
  const strangers = database.prepare(`
    SELECT DISTINCT purchase_id AS id FROM ledger WHERE purchase_id > ? AND purchase_id <= ?
      AND NOT EXISTS (SELECT 1 FROM purchases u WHERE u.id = purchase_id)`)
  const moves = database.prepare('SELECT entries FROM ledger WHERE purchase_id = ? ORDER BY move')
  return (from, to) => {
    for (const { id } of strangers.iterate(from, to))
      judgeEntries(String(id), moves.all(id!).map(textOf), undefined, report, reportUnbalanced)
  }
}

/**
 * Checks sessions. A confirmed session has its own purchase, which refers back to it. A session that is being settled has its
 * payment in flight. A fee payment also counts if its invoice ended without it.
 */
function checkSessions(database: DatabaseSync, report: Report): PageCheck {
  const sessions = database.prepare(`
    SELECT s.id, s.state, p.state AS payment, u.id AS purchase FROM payment_sessions s
      LEFT JOIN payments p ON p.id = s.payment_id LEFT JOIN purchases u ON u.payment_id = s.payment_id
    WHERE s.id > ? AND s.id <= ? AND CASE s.state
      WHEN 'confirmed' THEN u.id IS NULL OR u.id IS NOT s.purchase_id OR u.session_id IS NOT s.id
      WHEN 'open' THEN s.payment_id IS NOT NULL AND coalesce(p.state NOT IN (${list(unresolvedStates)}), 1)
      ELSE s.payment_id IS NOT NULL END`)
  return (from, to) => {
    for (const { id, state, payment, purchase } of sessions.iterate(from, to))
      report(
        `session ${id} is ${state}, its payment is ${payment ?? 'none'} with purchase ${purchase ?? 'none'}`,
      )
  }
}

function checkSessionsOfPurchases(database: DatabaseSync, report: Report): PageCheck {
  const purchases = database.prepare(`
    SELECT u.id, u.session_id, s.state FROM purchases u LEFT JOIN payment_sessions s ON s.id = u.session_id
    WHERE u.payment_id > ? AND u.payment_id <= ? AND u.session_id IS NOT NULL AND u.status = 'delivered'
      AND u.store_id NOT LIKE '${feesAccountOf('')}%' AND (s.state IS NOT 'confirmed' OR s.purchase_id IS NOT u.id)`)
  return (from, to) => {
    for (const { id, session_id: session, state } of purchases.iterate(from, to))
      report(`purchase ${id} is delivered, its session ${session} is ${state ?? 'not there'}`)
  }
}

/**
 * Conditions that find the endpoints `e` of a row's store and of its link. Each is one index lookup, regardless of the number of
 * links.
 */
const endpointsOf = (of: string) =>
  ['e.link_id IS NULL', `e.link_id = ${of}.link_id`].map(
    (which) => `webhook_endpoints e ON e.store_id = ${of}.store_id AND ${which}`,
  )

/** The time from which an endpoint `e` must have the events. */
const listeningSince = (nowMs: number) =>
  `max(e.listening_since_ms + ${LISTENING_DOUBT_MS}, ${nowMs - EVENT_RETENTION_MS + LISTENING_DOUBT_MS})`

/** Checks that every purchase to which an endpoint subscribes has its event, as long as events are stored. */
function checkEvents(database: DatabaseSync, nowMs: number, report: Report): PageCheck {
  const purchases = endpointsOf('u').map((endpoints) =>
    database.prepare(`
      SELECT u.id, e.id AS endpoint FROM purchases u CROSS JOIN ${endpoints}
      WHERE u.payment_id > ? AND u.payment_id <= ? AND u.created_at_ms > ${listeningSince(nowMs)}
        AND e.disabled_at_ms IS NULL AND instr(e.kinds, '"purchase.confirmed"') > 0
        AND NOT EXISTS (
          SELECT 1 FROM webhook_events v WHERE v.kind = 'purchase.confirmed' AND v.purchase_id = u.id)`),
  )
  return (from, to) => {
    for (const { id, endpoint } of purchases.flatMap((some) => some.all(from, to)))
      report(`purchase ${id} has no event, and the webhook ${endpoint} should have one`)
  }
}

/** Checks the events of sessions that were confirmed or have expired. */
function checkEventsOfSessions(database: DatabaseSync, nowMs: number, report: Report): PageCheck {
  // Repeats the conditions of the indexes webhook_events_session_… literally. With the kind as a parameter, SQLite would use no
  // index.
  const isTold = (end: 'confirmed' | 'expired') =>
    `EXISTS (SELECT 1 FROM webhook_events v WHERE v.kind = 'payment.${end}' AND v.session_id = s.id)`
  const sessions = endpointsOf('s').map((endpoints) =>
    database.prepare(`
      SELECT s.id, s.state, e.id AS endpoint FROM payment_sessions s CROSS JOIN ${endpoints}
      WHERE s.id > ? AND s.id <= ? AND s.state IN ('confirmed', 'expired') AND s.ended_at_ms > ${listeningSince(nowMs)}
        AND e.disabled_at_ms IS NULL AND instr(e.kinds, '"payment.' || s.state || '"') > 0
        AND NOT CASE s.state WHEN 'confirmed' THEN ${isTold('confirmed')} ELSE ${isTold('expired')} END`),
  )
  return (from, to) => {
    for (const { id, state, endpoint } of sessions.flatMap((some) => some.all(from, to)))
      report(`session ${id} is ${state} without an event, and the webhook ${endpoint} should have one`)
  }
}

/** Reports every transfer that should be on chain. */
function checkTransfers(
  database: DatabaseSync,
  onTransfer: NonNullable<LedgerEars['onTransfer']>,
): PageCheck {
  const transfers = database.prepare(`
    SELECT network, tx_hash, id FROM purchases
      WHERE payment_id > ?1 AND payment_id <= ?2 AND status <> 'reorged' AND tx_hash IS NOT NULL`)
  return (from, to) => {
    for (const { network, tx_hash: transaction, id } of transfers.iterate(from, to))
      onTransfer({
        network: String(network),
        transaction: packed.hexText(transaction as Packed),
        purchaseId: String(id),
      })
  }
}

const textOf = (move: Row): string => String(move['entries'])

const count = (database: DatabaseSync, sql: string): number =>
  reading(() => Number(database.prepare(sql).get()!['n']))

const counted = `SELECT v.day AS at, sum(v.views) AS views, sum(v.challenges) AS challenges
  FROM links l CROSS JOIN link_days v ON v.link_id = l.id WHERE l.store_id = ? AND (v.views <> 0 OR v.challenges <> 0) GROUP BY 1`
const kept =
  'SELECT day AS at, views, challenges FROM store_days WHERE store_id = ? AND (views <> 0 OR challenges <> 0) ORDER BY 1'
const nextSeen = `SELECT min(id) AS id FROM (SELECT min(id) AS id FROM stores WHERE id > ?1
  UNION ALL SELECT min(store_id) FROM store_days WHERE store_id > ?1)`

/** Names the days of stores whose views differ from the sum of their links' views. Each store is read at one moment. */
async function judgeViews(
  database: DatabaseSync,
  report: (finding: string) => void,
  onStore: (stores: number) => void,
): Promise<void> {
  const [seen, ofLinks, ofStore] = [nextSeen, counted, kept].map((sql) => database.prepare(sql))
  let stores = 0
  for (let id = seen!.get('')!['id']; id !== null; id = seen!.get(id!)!['id']) {
    database.exec('BEGIN')
    const [links, store] = [ofLinks!, ofStore!].map(
      (read) =>
        new Map(read.all(id!).map(({ at, views, challenges }) => [Number(at), `${views} ${challenges}`])),
    )
    database.exec('COMMIT')
    const days = new Set([...links!.keys(), ...store!.keys()])
    for (const at of [...days].sort((a, b) => a - b)) {
      if (links!.get(at) === store!.get(at)) continue
      const day = new Date(at * DAY_MS).toISOString().slice(0, 10)
      report(`the views of ${id} on ${day} are not those of its links`)
    }
    onStore(++stores)
    await setImmediate()
  }
}
