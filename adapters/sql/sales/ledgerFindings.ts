import { debtorOf, feesAccountOf, type LedgerEntry, toEntries } from '../../../core/domain/ledger.ts'

/** Findings of a kind that are listed; the others are counted, however much of a database is broken. */
const MOST_LISTED = 1_000

export type Say = (finding: string) => void

/**
 * Judges the entries of a purchase, or of none: whether they can be read, cancel out, and say of the fees owed what the row of the
 * purchase says.
 */
export function judgeEntries(
  id: string,
  moves: readonly string[],
  purchase: Readonly<Record<string, unknown>> | undefined,
  say: Say,
  sayUnbalanced: Say,
): void {
  let entries: LedgerEntry[]
  try {
    entries = moves.flatMap((move) => toEntries(id, move))
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

/** What a ledger check found of one kind. */
export function createFindings() {
  const listed: string[] = []
  const known = new Set<string>()
  let [count, others] = [0, 0]
  return {
    listed,
    add(finding: string): void {
      count++
      // Of a sale that was not made on its payment's day, both days tell.
      if (known.has(finding)) return
      if (listed.length >= MOST_LISTED) others++
      else {
        known.add(finding)
        listed.push(finding)
      }
    },
    /** How often something was found. */
    count: () => count,
    others: () => others,
  }
}
