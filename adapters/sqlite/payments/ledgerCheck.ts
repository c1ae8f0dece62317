import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { feesAccountOf } from '../../../core/domain/ledger.ts'
import { chargedStates, unresolvedStates } from '../../../core/domain/payment.ts'
import { DAY_MS } from '../../../core/ports/store/figures.ts'
import type { LedgerEars, LedgerFindings } from '../../../core/ports/store/purchases.ts'
import { EVENTS_KEPT_MS, LISTENING_DOUBT_MS } from '../../../core/ports/store/webhooks.ts'
import { type Packed, packed } from '../../sql/packed.ts'
import { createFindings, judgeEntries, type Say } from '../../sql/sales/ledgerFindings.ts'
import { isSaleInLedger, type TextSql } from '../../sql/sales/saleInLedger.ts'
import { connectReader } from '../connect.ts'
import type { Database } from '../database.ts'
import { reading } from '../failure.ts'
import type { Row } from '../statement.ts'
import { type DayOfSales, monthsOfSales } from '../sums/daysOfSales.ts'
import { feesJudge } from '../sums/judgeFees.ts'
import { salesJudge } from '../sums/judgeSales.ts'
import { judgeViews } from '../sums/judgeViews.ts'
import { judgedNotes } from './judgedNotes.ts'

/**
 * Rows of a table that are looked at as they stand at one moment. Then others get their turn, and the log may be copied back: a
 * look at all of a large file at once would keep everything that is written meanwhile.
 */
const ROWS_A_LOOK = 2_000

/** After every key of its kind. */
const lastText = '\u{10ffff}'

const list = (states: readonly string[]) => states.map((state) => `'${state}'`).join(', ')
const charged = list(chargedStates)

/** Looks at the rows after `from`, up to `to`. */
type Look = (from: SQLInputValue, to: SQLInputValue) => void

/**
 * Reads the whole books, some rows at a time. What belongs to a payment changes in one commit with it, so that it is judged as it
 * stands at one moment however long the whole takes, and payments that settle meanwhile are neither half seen nor held up.
 *
 * @param writer with it, days that were found right before are left out as long as nothing of them has moved, and those that are
 *   found right are noted
 */
export async function checkLedger(
  path: string,
  nowMs: number,
  { onProgress, onTransfer }: LedgerEars = {},
  writer?: Database['writer'],
): Promise<LedgerFindings> {
  const database = reading(() => connectReader(path))
  try {
    database.exec('PRAGMA cache_size = -32000')
    const [broken, unbalanced] = [createFindings(), createFindings()]
    const notes = writer && judgedNotes(database, writer, nowMs)
    const counts: Counts = { purchases: 0, chargedPayments: 0, unresolvedPayments: 0, refundDue: 0 }
    let skippedDays = 0
    const last = count(database, 'SELECT max(id) AS n FROM payments')
    const looks = [
      lookAtCounts(database, counts),
      lookAtPayments(database, broken.add),
      lookAtEntries(database, broken.add, unbalanced.add),
      lookAtSessionsOfPurchases(database, broken.add),
      lookAtEvents(database, nowMs, broken.add),
      ...(onTransfer === undefined ? [] : [lookAtTransfers(database, onTransfer)]),
    ]
    const [sales, feesOf] = [salesJudge(database), feesJudge(database)]
    const found = () => broken.count() + unbalanced.count()
    const lookOnce = (look: () => readonly string[]) =>
      inOneLook(database, () => {
        for (const finding of look()) broken.add(finding)
      })

    async function judgeDay({ day, from, to }: DayOfSales): Promise<void> {
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
      await walk(database, 'payments', 'id', from, to, (id) => onProgress?.('payments', id, last), looks)
      lookOnce(() => sales({ day, from, to }))
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
        await judgeDay(day)
        if (fees !== undefined) inOneLook(database, () => fees.add(day))
      }
      if (fees === undefined) continue
      lookOnce(fees.judge)
      if (found() === foundBefore)
        await notes?.months.foundRight(span, { purchases: 0, chargedPayments: 0, refundDue: 0 })
    }
    await walk(database, 'payment_sessions', 'id', '', lastText, (_, n) => onProgress?.('sessions', n), [
      lookAtSessions(database, broken.add),
      lookAtEventsOfSessions(database, nowMs, broken.add),
    ])
    // Entries of nobody among those of days that were found right are for a look at everything.
    const since = skippedDays === 0 ? '' : firstIdAt(nowMs - EVENTS_KEPT_MS)
    await walk(database, 'ledger', 'purchase_id', since, lastText, (_, n) => onProgress?.('entries', n), [
      lookAtEntriesOfNobody(database, broken.add, unbalanced.add),
    ])
    await judgeViews(database, broken.add, (stores) => onProgress?.('stores', stores))
    if (broken.others() > 0) broken.listed.push(`and ${broken.others()} more`)
    if (unbalanced.others() > 0)
      broken.listed.push(`and the entries of ${unbalanced.others()} more do not add up to zero`)
    return { ...counts, skippedDays, broken: broken.listed, unbalanced: unbalanced.listed }
  } finally {
    database.close()
  }
}

/** Before every purchase of that time: their ids begin with it (RFC 9562, version 7). */
function firstIdAt(ms: number): string {
  const digits = Math.max(ms, 0).toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}`
}

function inOneLook(database: DatabaseSync, look: () => void): void {
  reading(() => {
    database.exec('BEGIN')
    try {
      look()
    } finally {
      database.exec('COMMIT')
    }
  })
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
    FROM (SELECT ${key} AS k FROM ${table} WHERE ${key} > ? AND ${key} <= ? ORDER BY ${key} LIMIT ${ROWS_A_LOOK})`)
  let from = first
  let rows = 0
  for (let isOver = false; !isOver; ) {
    reading(() => {
      database.exec('BEGIN')
      const { end, n } = page.get(from, last)!
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

const inSqlite: TextSql = {
  matches: (text, what) => `${text} ${what === 'number' ? `GLOB '[1-9]*'` : `NOT GLOB '*[^0-9]*'`}`,
  position: (text, part) => `instr(${text}, ${part})`,
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
      AND NOT (u.status NOT IN ('reorged', 'refunded') AND ${isSaleInLedger('u', inSqlite)})`)
  const moves = database.prepare('SELECT entries FROM ledger WHERE purchase_id = ? ORDER BY move')
  return (from, to) => {
    for (const purchase of unusual.iterate(from, to)) {
      const id = String(purchase['id'])
      const texts = moves.all(id)
      if (texts.length === 0) say(`purchase ${id} has no ledger entries`)
      else judgeEntries(id, texts.map(textOf), purchase, say, sayUnbalanced)
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
      judgeEntries(String(id), moves.all(id!).map(textOf), undefined, say, sayUnbalanced)
  }
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
