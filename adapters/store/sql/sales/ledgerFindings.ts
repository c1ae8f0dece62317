import { debtorOf, feesAccountOf, type LedgerEntry, toEntries } from '../../../../core/domain/ledger.ts'

/**
 * Maximum number of findings of a kind that are listed. Further findings are only counted, because a whole database may be broken.
 */
const MAX_LISTED = 1_000

export type Report = (finding: string) => void

/**
 * Checks the entries of a purchase, or entries without a purchase. The entries must be readable, add up to zero, and agree with the
 * row of the purchase about the fees owed.
 */
export function judgeEntries(
  id: string,
  moves: readonly string[],
  purchase: Readonly<Record<string, unknown>> | undefined,
  report: Report,
  reportUnbalanced: Report,
): void {
  let entries: LedgerEntry[]
  try {
    entries = moves.flatMap((move) => toEntries(id, move))
  } catch {
    return report(`the ledger entries of ${id} cannot be read`)
  }
  const rollups = new Map<string, bigint>()
  for (const { network, asset, amountAtomic } of entries) {
    const unit = `${network} ${asset}`
    rollups.set(unit, (rollups.get(unit) ?? 0n) + amountAtomic)
  }
  if ([...rollups.values()].some((sum) => sum !== 0n)) reportUnbalanced(id)
  if (purchase === undefined) return
  const { store_id: storeId, status } = purchase
  const account = debtorOf(String(storeId)) === undefined ? feesAccountOf(String(storeId)) : storeId
  const booked = entries.reduce((sum, one) => (one.account === account ? sum + one.amountAtomic : sum), 0n)
  const isBack = status === 'reorged' || status === 'refunded'
  const own = account === storeId ? String(purchase['amount_atomic']) : `-${purchase['fee_atomic']}`
  const signedAmount = isBack ? '0' : own === '-0' ? '0' : own
  if (String(booked) !== signedAmount)
    report(
      `purchase ${id} is ${status}, and its ledger entries say that ${booked} of fees is owed, but the purchase says ${signedAmount}`,
    )
}

/** Collects the findings of one kind in a ledger check. */
export function createFindings() {
  const listed: string[] = []
  const known = new Set<string>()
  let [count, others] = [0, 0]
  return {
    listed,
    add(finding: string): void {
      count++
      // If a sale's day differs from its payment's, both days report the finding.
      if (known.has(finding)) return
      if (listed.length >= MAX_LISTED) others++
      else {
        known.add(finding)
        listed.push(finding)
      }
    },
    /** How many findings there are. */
    count: () => count,
    others: () => others,
  }
}

/** Expressions that differ between the databases. */
export interface TextSql {
  /** Whether a text begins with a digit other than 0 (`number`), or has only digits (`digits`). */
  matches(text: string, what: 'number' | 'digits'): string
  /** Position at which one text begins in another, counted from 1. 0 when the text does not contain the part. */
  position(text: string, part: string): string
}

/**
 * SQL condition that compares the ledger's text with the entries that `entriesOfSale` makes of the purchase. It is true if the
 * ledger has exactly one booking, in the present or the previous form of `entriesText`. Such entries are readable, add up to zero
 * and agree with the purchase. The condition is false for unusual purchases, such as zero prices, names that JSON would escape, and
 * fee invoices.
 *
 * @param u the row of `purchases`
 */
export function isSaleInLedger(u: string, { matches, position }: TextSql): string {
  const [buyer, seller, owed, own] = [
    `buyer:' || ${u}.buyer_wallet || '`,
    `seller:' || ${u}.store_id || '`,
    `fees-owed:' || ${u}.store_id || '`,
    'platform:fees',
  ]
  const [amount, fee] = [`' || ${u}.amount_atomic || '`, `' || ${u}.fee_atomic || '`]
  const feeOwed = `' || CASE ${u}.fee_atomic WHEN '0' THEN '' ELSE '-' END || '${fee}`
  const unit = `' || ${u}.network || '","' || ${u}.asset || '`
  const line = (account: string, text: string, kind: string) => `["${account}","${unit}","${text}","${kind}"]`
  const text = `["${unit}",["sale","${buyer}","-${amount}","${seller}","${amount}"],["fee","${owed}","${feeOwed}","${own}","${fee}"]]`
  const former = [
    line(buyer, `-${amount}`, 'sale'),
    line(seller, amount, 'sale'),
    line(owed, feeOwed, 'fee'),
    line(own, fee, 'fee'),
  ].join()
  const escaped = ['network', 'asset', 'buyer_wallet', 'store_id'].flatMap((column) =>
    ['"', '\\'].map((mark) => position(`${u}.${column}`, `'${mark}'`)),
  )
  return `(${matches(`${u}.amount_atomic`, 'number')} AND ${matches(`(${u}.amount_atomic || ${u}.fee_atomic)`, 'digits')}
    AND ${u}.fee_atomic <> ''
    AND ${escaped.join(' + ')} = 0 AND substr(${u}.store_id, 1, 10) <> 'fees-owed:'
    AND coalesce((SELECT count(*) = 1 AND min(entries) = CASE substr(min(entries), 1, 2)
        WHEN '[[' THEN '[${former}]' ELSE '${text}' END
      FROM ledger WHERE purchase_id = ${u}.id), false))`
}
