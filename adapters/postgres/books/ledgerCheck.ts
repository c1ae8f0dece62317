import type pg from 'pg'
import { feesAccountOf } from '../../../core/domain/ledger.ts'
import { chargedStates, unresolvedStates } from '../../../core/domain/payment.ts'
import type { LedgerEars, LedgerFindings } from '../../../core/ports/store/purchases.ts'
import { EVENTS_KEPT_MS, LISTENING_DOUBT_MS } from '../../../core/ports/store/webhooks.ts'
import type { Row } from '../../sql/row.ts'
import { createFindings, judgeEntries, type Say } from '../../sql/sales/ledgerFindings.ts'
import { isSaleInLedger, type TextSql } from '../../sql/sales/saleInLedger.ts'
import { errorOf } from '../failure.ts'
import { checkSums } from './sumsCheck.ts'

/** Rows of a table that are looked at as they stand at one moment: a longer look would keep dead rows from being cleared away. */
const ROWS_A_LOOK = 2_000

/** After every key of its kind. */
const [lastRow, lastText] = [Number.MAX_SAFE_INTEGER, '\u{10ffff}']

const list = (states: readonly string[]) => states.map((state) => `'${state}'`).join(', ')
const charged = list(chargedStates)

const inPostgres: TextSql = {
  matches: (text, what) => `${text} ${what === 'number' ? `~ '^[1-9]'` : `!~ '[^0-9]'`}`,
  position: (text, part) => `strpos(${text}, ${part})`,
}

type Key = string | number
/** Looks at the rows after $1, up to $2. */
interface Look {
  readonly text: string
  read(row: Row): void
}

/**
 * Reads the whole books, some rows at a time. What belongs to a payment changes in one commit with it, so that it is judged as it
 * stands at one moment however long the whole takes, and payments that settle meanwhile are not half seen.
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
      [ofEntriesOfNobody(broken.add, unbalanced.add)],
      (_, n) => onProgress?.('entries', n),
    )
    await checkSums(client, broken.add, (months, all) => onProgress?.('months of sums', months, all))
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

/** Looks at a table in the order of its key; what comes meanwhile may be among it. */
async function walk(
  client: pg.PoolClient,
  { table, key, first, last }: { table: string; key: string; first: Key; last: Key },
  looks: readonly Look[],
  onLook: (to: number, rows: number) => void,
): Promise<void> {
  const page = `SELECT max(k) AS end, count(*)::int AS n
    FROM (SELECT ${key} AS k FROM ${table} WHERE ${key} > $1 ORDER BY ${key} LIMIT ${ROWS_A_LOOK}) AS page`
  let from = first
  let rows = 0
  for (let isOver = false; !isOver; ) {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    const { end, n } = (await client.query(page, [from])).rows[0]
    isOver = n < ROWS_A_LOOK
    const to: Key = isOver ? last : end
    for (const { text, read } of looks)
      for (const row of (await client.query(text, [from, to])).rows) read(row)
    await client.query('COMMIT')
    from = to
    rows += n
    if (!isOver) onLook(Number(from), rows)
  }
}

type Counts = {
  -readonly [Name in 'purchases' | 'chargedPayments' | 'unresolvedPayments' | 'refundDue']: number
}

function counting(counts: Counts): Look[] {
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

/** Every charged payment has its purchase in the same state, unless it landed late; and the other way round. */
const ofPayments = (say: Say): Look[] => [
  {
    text: `SELECT encode(p.key, 'hex') AS key, p.state, u.id, u.status
      FROM payments p LEFT JOIN purchases u ON u.payment_id = p.id
      WHERE p.id > $1 AND p.id <= $2 AND (p.state IN (${charged}) OR u.id IS NOT NULL)
        AND NOT (u.id IS NULL AND p.landed_late = 1)
        AND NOT (u.status IS NOT NULL AND u.status = p.state)
        AND NOT coalesce(u.status = 'reorged' AND p.state IN ('reorged', 'failed_final'), false)`,
    read: ({ key, state, id, status }) =>
      say(
        id === null
          ? `payment ${key} is ${state} and has no purchase`
          : `payment ${key} is ${state}, its purchase ${id} is ${status}`,
      ),
  },
  {
    text: `SELECT encode(p.key, 'hex') AS key FROM payments p WHERE p.id > $1 AND p.id <= $2 AND p.state = 'refunded'
      AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.payment_id = p.id)`,
    read: ({ key }) => say(`payment ${key} is refunded, and no transfer back is known`),
  },
  {
    text: `SELECT encode(p.key, 'hex') AS key, p.state, r.tx_hash FROM refunds r JOIN payments p ON p.id = r.payment_id
      WHERE r.payment_id > $1 AND r.payment_id <= $2 AND p.state <> 'refunded'`,
    read: ({ key, state, tx_hash: back }) => say(`payment ${key} is ${state}, and ${back} has paid it back`),
  },
  {
    text: `SELECT u.id FROM purchases u WHERE u.payment_id > $1 AND u.payment_id <= $2
      AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.id = u.payment_id)`,
    read: ({ id }) => say(`purchase ${id} has no payment`),
  },
]

/**
 * Entries that can not be read, that are missing, that do not cancel out, or that say something else of the fees owed than the
 * purchase, by which they are billed. Most are word for word those of a sale, which the database compares by itself.
 */
const ofEntries = (say: Say, sayUnbalanced: Say): Look => ({
  text: `SELECT u.id, u.store_id, u.status, u.amount_atomic, u.fee_atomic,
      ARRAY(SELECT l.entries FROM ledger l WHERE l.purchase_id = u.id ORDER BY l.move) AS moves
    FROM purchases u WHERE u.payment_id > $1 AND u.payment_id <= $2
      AND NOT (u.status NOT IN ('reorged', 'refunded') AND ${isSaleInLedger('u', inPostgres)})`,
  read({ moves, ...purchase }) {
    const texts = moves as string[]
    if (texts.length === 0) say(`purchase ${purchase['id']} has no ledger entries`)
    else judgeEntries(String(purchase['id']), texts, purchase, say, sayUnbalanced)
  },
})

/** The same of what no purchase belongs to. */
const ofEntriesOfNobody = (say: Say, sayUnbalanced: Say): Look => ({
  text: `SELECT l.purchase_id AS id, array_agg(l.entries ORDER BY l.move) AS moves FROM ledger l
    WHERE l.purchase_id > $1 AND l.purchase_id <= $2
      AND NOT EXISTS (SELECT 1 FROM purchases u WHERE u.id = l.purchase_id)
    GROUP BY l.purchase_id`,
  read: ({ id, moves }) => judgeEntries(String(id), moves as string[], undefined, say, sayUnbalanced),
})

/**
 * A session is confirmed by a purchase of its own, and the other way round; what is being settled for one is on its way. What
 * pays fees counts also when its invoice has ended without it.
 */
const ofSessions = (say: Say): Look => ({
  text: `SELECT s.id, s.state, p.state AS payment, u.id AS purchase FROM payment_sessions s
      LEFT JOIN payments p ON p.id = s.payment_id LEFT JOIN purchases u ON u.payment_id = s.payment_id
    WHERE s.id > $1 AND s.id <= $2 AND CASE s.state
      WHEN 'confirmed'
        THEN u.id IS NULL OR u.id IS DISTINCT FROM s.purchase_id OR u.session_id IS DISTINCT FROM s.id
      WHEN 'open' THEN s.payment_id IS NOT NULL AND coalesce(p.state NOT IN (${list(unresolvedStates)}), true)
      ELSE s.payment_id IS NOT NULL END`,
  read: ({ id, state, payment, purchase }) =>
    say(`session ${id} is ${state}, its payment is ${payment ?? 'none'} with purchase ${purchase ?? 'none'}`),
})

const ofSessionsOfPurchases = (say: Say): Look => ({
  text: `SELECT u.id, u.session_id, s.state FROM purchases u LEFT JOIN payment_sessions s ON s.id = u.session_id
    WHERE u.payment_id > $1 AND u.payment_id <= $2 AND u.session_id IS NOT NULL AND u.status = 'delivered'
      AND u.store_id NOT LIKE '${feesAccountOf('')}%'
      AND (s.state IS DISTINCT FROM 'confirmed' OR s.purchase_id IS DISTINCT FROM u.id)`,
  read: ({ id, session_id: session, state }) =>
    say(`purchase ${id} is delivered, its session ${session} is ${state ?? 'not there'}`),
})

/** Endpoints `e` of a row's store, and of its link: each a look into the index, however many links have one. */
const endpointsOf = (of: string) =>
  ['e.link_id IS NULL', `e.link_id = ${of}.link_id`].map(
    (which) => `webhook_endpoints e ON e.store_id = ${of}.store_id AND ${which}`,
  )

/** From when on an endpoint `e` has to have heard of what happened. */
const heardSince = (nowMs: number) =>
  `greatest(e.listening_since_ms + ${LISTENING_DOUBT_MS}, ${nowMs - EVENTS_KEPT_MS + LISTENING_DOUBT_MS})`

/** Every purchase that an endpoint listened for has its event, as long as events are kept. */
const ofEvents = (nowMs: number, say: Say): Look[] =>
  endpointsOf('u').map((endpoints) => ({
    text: `SELECT u.id, e.id AS endpoint FROM purchases u JOIN ${endpoints}
      WHERE u.payment_id > $1 AND u.payment_id <= $2 AND u.created_at_ms > ${heardSince(nowMs)}
        AND e.disabled_at_ms IS NULL AND strpos(e.kinds, '"purchase.confirmed"') > 0
        AND NOT EXISTS (
          SELECT 1 FROM webhook_events v WHERE v.kind = 'purchase.confirmed' AND v.purchase_id = u.id)`,
    read: ({ id, endpoint }) =>
      say(`purchase ${id} has no event, and the webhook ${endpoint} should hear of it`),
  }))

/** The same of sessions that were confirmed, or have expired. */
function ofEventsOfSessions(nowMs: number, say: Say): Look[] {
  // The words of the indexes webhook_events_session_…, so that they are used: a kind that is put together finds none.
  const isTold = (end: 'confirmed' | 'expired') =>
    `EXISTS (SELECT 1 FROM webhook_events v WHERE v.kind = 'payment.${end}' AND v.session_id = s.id)`
  return endpointsOf('s').map((endpoints) => ({
    text: `SELECT s.id, s.state, e.id AS endpoint FROM payment_sessions s JOIN ${endpoints}
      WHERE s.id > $1 AND s.id <= $2 AND s.state IN ('confirmed', 'expired') AND s.ended_at_ms > ${heardSince(nowMs)}
        AND e.disabled_at_ms IS NULL AND strpos(e.kinds, '"payment.' || s.state || '"') > 0
        AND NOT CASE s.state WHEN 'confirmed' THEN ${isTold('confirmed')} ELSE ${isTold('expired')} END`,
    read: ({ id, state, endpoint }) =>
      say(`session ${id} is ${state} without an event, and the webhook ${endpoint} should hear of it`),
  }))
}

/** Every transfer that should be on chain: of purchases, and of payments that landed after they were given up. */
const ofTransfers = (onTransfer: NonNullable<LedgerEars['onTransfer']>): Look => ({
  text: `SELECT network, tx_hash, id FROM purchases
      WHERE payment_id > $1 AND payment_id <= $2 AND status <> 'reorged' AND tx_hash IS NOT NULL
    UNION ALL
    SELECT network, coalesce(tx_hash, tx, ''), purchase_id FROM payments LEFT JOIN attempts ON payment_id = id
      WHERE id > $1 AND id <= $2 AND landed_late = 1 AND state IN (${charged})`,
  read: ({ network, tx_hash: transaction, id }) =>
    onTransfer({ network: String(network), transaction: String(transaction), purchaseId: String(id) }),
})
