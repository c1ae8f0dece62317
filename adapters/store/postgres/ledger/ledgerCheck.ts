import type pg from 'pg'
import { feesAccountOf } from '../../../../core/domain/ledger.ts'
import { chargedStates, unresolvedStates } from '../../../../core/domain/payment.ts'
import type { LedgerEars, LedgerFindings } from '../../../../core/ports/store/purchases.ts'
import { EVENT_RETENTION_MS, LISTENING_DOUBT_MS } from '../../../../core/ports/store/webhooks.ts'
import type { Row } from '../../sql/rows.ts'
import {
  createFindings,
  isSaleInLedger,
  judgeEntries,
  type Report,
  type TextSql,
} from '../../sql/sales/ledgerFindings.ts'
import { errorOf } from '../failure.ts'
import { checkRollups } from './rollupsCheck.ts'

/** Rows that a transaction reads. A longer transaction would keep the server from removing dead rows. */
const ROWS_PER_PAGE = 2_000

/** A number and a text that are greater than every key. */
const [lastRow, lastText] = [Number.MAX_SAFE_INTEGER, '\u{10ffff}']

const list = (states: readonly string[]) => states.map((state) => `'${state}'`).join(', ')
const charged = list(chargedStates)

const inPostgres: TextSql = {
  matches: (text, what) => `${text} ${what === 'number' ? `~ '^[1-9]'` : `!~ '[^0-9]'`}`,
  position: (text, part) => `strpos(${text}, ${part})`,
}

type Key = string | number
/** Checks the rows after $1 and up to $2. */
interface PageCheck {
  readonly text: string
  read(row: Row): void
}

/**
 * Checks the whole ledger, some rows at a time. The rows of a payment change in one commit and are read in one transaction, so even
 * a long check never sees a half-changed payment.
 */
export async function checkLedger(
  pool: pg.Pool,
  nowMs: number,
  { onProgress, onTransfer }: LedgerEars = {},
): Promise<LedgerFindings> {
  const client = await pool.connect().catch((error: unknown) => {
    throw errorOf(error)
  })
  let isInDoubt = true
  try {
    const [broken, unbalanced] = [createFindings(), createFindings()]
    const counts = { purchases: 0, chargedPayments: 0, unresolvedPayments: 0, refundDue: 0 }
    const { rows } = await client.query('SELECT max(id) AS n FROM payments')
    await walk(
      client,
      { table: 'payments', key: 'id', first: -lastRow, last: lastRow },
      [
        ...counting(counts),
        ...ofPayments(broken.add),
        ofEntries(broken.add, unbalanced.add),
        ofSessionsOfPurchases(broken.add),
        ...ofEvents(nowMs, broken.add),
        ...(onTransfer === undefined ? [] : [ofTransfers(onTransfer)]),
      ],
      (to) => onProgress?.('payments', to, Number(rows[0].n)),
    )
    await walk(
      client,
      { table: 'payment_sessions', key: 'id', first: '', last: lastText },
      [ofSessions(broken.add), ...ofEventsOfSessions(nowMs, broken.add)],
      (_, n) => onProgress?.('sessions', n),
    )
    await walk(
      client,
      { table: 'ledger', key: 'purchase_id', first: '', last: lastText },
      [ofEntriesWithoutPayment(broken.add, unbalanced.add)],
      (_, n) => onProgress?.('entries', n),
    )
    await checkRollups(client, broken.add, (months, all) => onProgress?.('months of sums', months, all))
    if (broken.others() > 0) broken.listed.push(`and ${broken.others()} more`)
    if (unbalanced.others() > 0)
      broken.listed.push(`and the entries of ${unbalanced.others()} more do not add up to zero`)
    isInDoubt = false
    return { ...counts, skippedDays: 0, broken: broken.listed, unbalanced: unbalanced.listed }
  } catch (error) {
    throw errorOf(error)
  } finally {
    client.release(isInDoubt)
  }
}

/** Checks a table in the order of its key. The check may include rows that are added meanwhile. */
async function walk(
  client: pg.PoolClient,
  { table, key, first, last }: { table: string; key: string; first: Key; last: Key },
  checks: readonly PageCheck[],
  onPage: (to: number, rows: number) => void,
): Promise<void> {
  const page = `SELECT max(k) AS end, count(*)::int AS n
    FROM (SELECT ${key} AS k FROM ${table} WHERE ${key} > $1 ORDER BY ${key} LIMIT ${ROWS_PER_PAGE}) AS page`
  let from = first
  let rows = 0
  for (let isOver = false; !isOver; ) {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    const { end, n } = (await client.query(page, [from])).rows[0]
    isOver = n < ROWS_PER_PAGE
    const to: Key = isOver ? last : end
    for (const { text, read } of checks)
      for (const row of (await client.query(text, [from, to])).rows) read(row)
    await client.query('COMMIT')
    from = to
    rows += n
    if (!isOver) onPage(Number(from), rows)
  }
}

type Counts = {
  -readonly [Name in 'purchases' | 'chargedPayments' | 'unresolvedPayments' | 'refundDue']: number
}

function counting(counts: Counts): PageCheck[] {
  const isOneOf = (states: readonly string[], state: unknown) => states.includes(String(state))
  return [
    {
      text: `SELECT count(*)::int AS n FROM purchases WHERE payment_id > $1 AND payment_id <= $2 AND status <> 'reorged'`,
      read: ({ n }) => void (counts.purchases += Number(n)),
    },
    {
      text: 'SELECT state, count(*)::int AS n FROM payments WHERE id > $1 AND id <= $2 GROUP BY state',
      read({ state, n }) {
        if (isOneOf(chargedStates, state)) counts.chargedPayments += Number(n)
        if (isOneOf(unresolvedStates, state)) counts.unresolvedPayments += Number(n)
        if (state === 'refund_due') counts.refundDue += Number(n)
      },
    },
  ]
}

/** Checks that every charged payment has a purchase in the same state, and that every purchase has its payment. */
const ofPayments = (report: Report): PageCheck[] => [
  {
    text: `SELECT encode(p.key, 'hex') AS key, p.state, u.id, u.status
      FROM payments p LEFT JOIN purchases u ON u.payment_id = p.id
      WHERE p.id > $1 AND p.id <= $2 AND (p.state IN (${charged}) OR u.id IS NOT NULL)
        AND NOT (u.status IS NOT NULL AND u.status = p.state)
        AND NOT coalesce(u.status = 'reorged' AND p.state IN ('reorged', 'failed_final'), false)`,
    read: ({ key, state, id, status }) =>
      report(
        id === null
          ? `payment ${key} is ${state} and has no purchase`
          : `payment ${key} is ${state}, its purchase ${id} is ${status}`,
      ),
  },
  {
    text: `SELECT encode(p.key, 'hex') AS key FROM payments p WHERE p.id > $1 AND p.id <= $2 AND p.state = 'refunded'
      AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.payment_id = p.id)`,
    read: ({ key }) => report(`payment ${key} is refunded, and no transfer back is known`),
  },
  {
    text: `SELECT encode(p.key, 'hex') AS key, p.state, r.tx_hash FROM refunds r JOIN payments p ON p.id = r.payment_id
      WHERE r.payment_id > $1 AND r.payment_id <= $2 AND p.state <> 'refunded'`,
    read: ({ key, state, tx_hash: back }) =>
      report(`payment ${key} is ${state}, and ${back} has paid it back`),
  },
  {
    text: `SELECT u.id FROM purchases u WHERE u.payment_id > $1 AND u.payment_id <= $2
      AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.id = u.payment_id)`,
    read: ({ id }) => report(`purchase ${id} has no payment`),
  },
]

/**
 * Finds entries that cannot be read, are missing, do not add up to zero, or disagree with the purchase about the fees owed. Most
 * entries are exactly the text of a sale, so the database compares them.
 */
const ofEntries = (report: Report, reportUnbalanced: Report): PageCheck => ({
  text: `SELECT u.id, u.store_id, u.status, u.amount_atomic, u.fee_atomic,
      ARRAY(SELECT l.entries FROM ledger l WHERE l.purchase_id = u.id ORDER BY l.move) AS moves
    FROM purchases u WHERE u.payment_id > $1 AND u.payment_id <= $2
      AND NOT (u.status NOT IN ('reorged', 'refunded') AND ${isSaleInLedger('u', inPostgres)})`,
  read({ moves, ...purchase }) {
    const texts = moves as string[]
    if (texts.length === 0) report(`purchase ${purchase['id']} has no ledger entries`)
    else judgeEntries(String(purchase['id']), texts, purchase, report, reportUnbalanced)
  },
})

/** Like {@link ofEntries}, for entries without a purchase. */
const ofEntriesWithoutPayment = (report: Report, reportUnbalanced: Report): PageCheck => ({
  text: `SELECT l.purchase_id AS id, array_agg(l.entries ORDER BY l.move) AS moves FROM ledger l
    WHERE l.purchase_id > $1 AND l.purchase_id <= $2
      AND NOT EXISTS (SELECT 1 FROM purchases u WHERE u.id = l.purchase_id)
    GROUP BY l.purchase_id`,
  read: ({ id, moves }) => judgeEntries(String(id), moves as string[], undefined, report, reportUnbalanced),
})

/**
 * Checks sessions. A confirmed session has its own purchase, which refers back to it. A session that is being settled has its
 * payment in flight. A fee payment also counts if its invoice ended without it.
 */
const ofSessions = (report: Report): PageCheck => ({
  text: `SELECT s.id, s.state, p.state AS payment, u.id AS purchase FROM payment_sessions s
      LEFT JOIN payments p ON p.id = s.payment_id LEFT JOIN purchases u ON u.payment_id = s.payment_id
    WHERE s.id > $1 AND s.id <= $2 AND CASE s.state
      WHEN 'confirmed'
        THEN u.id IS NULL OR u.id IS DISTINCT FROM s.purchase_id OR u.session_id IS DISTINCT FROM s.id
      WHEN 'open' THEN s.payment_id IS NOT NULL AND coalesce(p.state NOT IN (${list(unresolvedStates)}), true)
      ELSE s.payment_id IS NOT NULL END`,
  read: ({ id, state, payment, purchase }) =>
    report(
      `session ${id} is ${state}, its payment is ${payment ?? 'none'} with purchase ${purchase ?? 'none'}`,
    ),
})

const ofSessionsOfPurchases = (report: Report): PageCheck => ({
  text: `SELECT u.id, u.session_id, s.state FROM purchases u LEFT JOIN payment_sessions s ON s.id = u.session_id
    WHERE u.payment_id > $1 AND u.payment_id <= $2 AND u.session_id IS NOT NULL AND u.status = 'delivered'
      AND u.store_id NOT LIKE '${feesAccountOf('')}%'
      AND (s.state IS DISTINCT FROM 'confirmed' OR s.purchase_id IS DISTINCT FROM u.id)`,
  read: ({ id, session_id: session, state }) =>
    report(`purchase ${id} is delivered, its session ${session} is ${state ?? 'not there'}`),
})

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
  `greatest(e.listening_since_ms + ${LISTENING_DOUBT_MS}, ${nowMs - EVENT_RETENTION_MS + LISTENING_DOUBT_MS})`

/** Checks that every purchase to which an endpoint subscribes has its event, as long as events are stored. */
const ofEvents = (nowMs: number, report: Report): PageCheck[] =>
  endpointsOf('u').map((endpoints) => ({
    text: `SELECT u.id, e.id AS endpoint FROM purchases u JOIN ${endpoints}
      WHERE u.payment_id > $1 AND u.payment_id <= $2 AND u.created_at_ms > ${listeningSince(nowMs)}
        AND e.disabled_at_ms IS NULL AND strpos(e.kinds, '"purchase.confirmed"') > 0
        AND NOT EXISTS (
          SELECT 1 FROM webhook_events v WHERE v.kind = 'purchase.confirmed' AND v.purchase_id = u.id)`,
    read: ({ id, endpoint }) =>
      report(`purchase ${id} has no event, and the webhook ${endpoint} should have one`),
  }))

/** Checks the events of sessions that were confirmed or have expired. */
function ofEventsOfSessions(nowMs: number, report: Report): PageCheck[] {
  // Repeats the conditions of the indexes webhook_events_session_… literally. With the kind as a parameter, PostgreSQL would use no
  // index.
  const hasEvent = (end: 'confirmed' | 'expired') =>
    `EXISTS (SELECT 1 FROM webhook_events v WHERE v.kind = 'payment.${end}' AND v.session_id = s.id)`
  return endpointsOf('s').map((endpoints) => ({
    text: `SELECT s.id, s.state, e.id AS endpoint FROM payment_sessions s JOIN ${endpoints}
      WHERE s.id > $1 AND s.id <= $2 AND s.state IN ('confirmed', 'expired') AND s.ended_at_ms > ${listeningSince(nowMs)}
        AND e.disabled_at_ms IS NULL AND strpos(e.kinds, '"payment.' || s.state || '"') > 0
        AND NOT CASE s.state WHEN 'confirmed' THEN ${hasEvent('confirmed')} ELSE ${hasEvent('expired')} END`,
    read: ({ id, state, endpoint }) =>
      report(`session ${id} is ${state} without an event, and the webhook ${endpoint} should have one`),
  }))
}

/** Reports every transfer that should be on chain. */
const ofTransfers = (onTransfer: NonNullable<LedgerEars['onTransfer']>): PageCheck => ({
  text: `SELECT network, tx_hash, id FROM purchases
      WHERE payment_id > $1 AND payment_id <= $2 AND status <> 'reorged' AND tx_hash IS NOT NULL`,
  read: ({ network, tx_hash: transaction, id }) =>
    onTransfer({ network: String(network), transaction: String(transaction), purchaseId: String(id) }),
})
