import type { LandedMeta } from './moves.ts'

/** Wallets that token accounts belong to, before or after the transaction: it may close the account that it empties. */
export function ownersOf(meta: LandedMeta, keys: readonly string[]): ReadonlyMap<string, string> {
  const balances = [...(meta.preTokenBalances ?? []), ...(meta.postTokenBalances ?? [])]
  return new Map(
    balances.flatMap(({ accountIndex, owner }) =>
      typeof owner === 'string' ? [[keys[accountIndex] ?? '', owner]] : [],
    ),
  )
}
