import type { StoreId } from './link.ts'
import type { AtomicAmount } from './money.ts'
import type { Purchase } from './purchase.ts'

/** One side of a double entry. The entries of one purchase add up to zero per asset. */
export interface LedgerEntry {
  readonly purchaseId: string
  /** `buyer:<wallet>`, `seller:<storeId>`, `fees-owed:<storeId>`, `platform:fees`. */
  readonly account: string
  readonly network: string
  readonly asset: string
  readonly amountAtomic: AtomicAmount
  readonly kind: 'sale' | 'fee' | 'refund'
}

const feesOwed = 'fees-owed:'

/**
 * The ledger account of the fees that a store owes the platform. In a payment of fees, this account takes the place of the store.
 * An invoice is a payment session of this account, and its payment is a purchase of this account, so neither appears among the
 * store's own.
 */
export const feesAccountOf = (storeId: StoreId): StoreId => feesOwed + storeId

/** The store that owes the fees of this account. Undefined for a store's own account. */
export const debtorOf = (account: StoreId): StoreId | undefined =>
  account.startsWith(feesOwed) ? account.slice(feesOwed.length) : undefined

/**
 * The entries of a sale in direct mode, in which the buyer has paid the seller's own wallet and the seller owes the platform its
 * fee. For a payment of fees, the entries lower what the store owes.
 */
export function entriesOfSale(purchase: Purchase): LedgerEntry[] {
  const { id, network, asset, amountAtomic, feeAtomic, storeId, buyerWallet } = purchase
  const line = (account: string, amount: AtomicAmount, kind: LedgerEntry['kind']): LedgerEntry => ({
    purchaseId: id,
    account,
    network,
    asset,
    amountAtomic: amount,
    kind,
  })
  if (debtorOf(storeId) !== undefined)
    return [line(`buyer:${buyerWallet}`, -amountAtomic, 'fee'), line(storeId, amountAtomic, 'fee')]
  return [
    line(`buyer:${buyerWallet}`, -amountAtomic, 'sale'),
    line(`seller:${storeId}`, amountAtomic, 'sale'),
    line(feesAccountOf(storeId), -feeAtomic, 'fee'),
    line('platform:fees', feeAtomic, 'fee'),
  ]
}

/** The entries that reverse a sale, which are the sale's entries with negated amounts. */
export function entriesOfRefund(purchase: Purchase): LedgerEntry[] {
  return entriesOfSale(purchase).map((e) => ({
    ...e,
    amountAtomic: -e.amountAtomic,
    kind: 'refund' as const,
  }))
}

/** The entries that reverse a refund whose transfer left the chain, because the seller has the money of the sale again. */
export function entriesOfLostRefund(purchase: Purchase): LedgerEntry[] {
  return entriesOfSale(purchase).map((entry) => ({ ...entry, kind: 'refund' as const }))
}

/**
 * Checks that entries belong to one purchase and add up to zero.
 *
 * @throws if they do not, because such a mistake must not reach the ledger
 */
export function bookable(entries: readonly LedgerEntry[], purchaseId: string): readonly LedgerEntry[] {
  const rollups = new Map<string, bigint>()
  for (const { purchaseId: of, network, asset, amountAtomic } of entries) {
    const unit = `${network} ${asset}`
    rollups.set(unit, (rollups.get(unit) ?? 0n) + amountAtomic)
    if (of !== purchaseId)
      throw new Error(`Expected ledger entries of purchase ${purchaseId}, got one of ${of}.`)
  }
  for (const [unit, sum] of rollups) {
    if (sum !== 0n) throw new Error(`Expected ledger entries that add up to zero, got ${sum} of ${unit}.`)
  }
  return entries
}

/**
 * All entries of a purchase in one text, so that a database stores them in one row (bench/durableSteps.ts). If all have the same
 * asset, the text names the asset once: `[network, asset, [kind, account, amount, account, amount], [kind, …]]`. Otherwise it is a
 * list of {@link EntryText}.
 */
export function entriesText(entries: readonly LedgerEntry[]): string {
  const [{ network, asset } = { network: '', asset: '' }] = entries
  if (entries.length === 0 || entries.some((e) => e.network !== network || e.asset !== asset))
    return JSON.stringify(
      entries.map(
        (e) => [e.account, e.network, e.asset, e.amountAtomic.toString(), e.kind] satisfies EntryText,
      ),
    )
  const runs: string[][] = []
  for (const { kind, account, amountAtomic } of entries) {
    if (runs.at(-1)?.[0] !== kind) runs.push([kind])
    runs.at(-1)!.push(account, amountAtomic.toString())
  }
  return JSON.stringify([network, asset, ...runs])
}

type EntryText = [account: string, network: string, asset: string, amountAtomic: string, kind: string]

/** Reads a text of {@link entriesText}. @throws for any other text */
export function toEntries(purchaseId: string, text: string): LedgerEntry[] {
  const entryOf = ([account, network, asset, amountAtomic, kind]: EntryText): LedgerEntry => ({
    purchaseId,
    account,
    network,
    asset,
    amountAtomic: BigInt(amountAtomic),
    kind: kind as LedgerEntry['kind'],
  })
  const stored = JSON.parse(text) as EntryText[] | [network: string, asset: string, ...runs: string[][]]
  if (typeof stored[0] !== 'string') return (stored as EntryText[]).map(entryOf)
  const [network, asset, ...runs] = stored as [string, string, ...string[][]]
  return runs.flatMap(([kind, ...lines]) =>
    Array.from({ length: Math.ceil(lines.length / 2) }, (_, i) =>
      entryOf([lines[2 * i]!, network, asset, lines[2 * i + 1]!, kind!]),
    ),
  )
}
