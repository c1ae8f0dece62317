import type { AssetRef } from './assets.ts'
import type { Decoded } from './decoded.ts'

/** The most that a request can cost the account that signs it. */
export interface Spend {
  /** By asset id: transfers and allowances at their full value, native rent and fees left out. */
  readonly moved: ReadonlyMap<string, { readonly asset: AssetRef; readonly amount: bigint }>
  /** Network fee and rent of new accounts that the account pays, in atomic native units. */
  readonly fee: bigint
}

/**
 * Adds up what the signing account can lose. Money of others is not in it. What is opaque is not in it either: a caller
 * looks at `isOpaque` first.
 */
export function spendOf(decoded: Pick<Decoded, 'effects' | 'fee' | 'from'>): Spend {
  const { effects, from } = decoded
  const moved = new Map<string, { asset: AssetRef; amount: bigint }>()
  let fee = decoded.fee.payer === from ? decoded.fee.amount : 0n
  for (const effect of effects) {
    if (effect.kind === 'account') {
      if (effect.payer === from) fee += effect.rent
      continue
    }
    if (effect.kind !== 'transfer' && effect.kind !== 'allowance') continue
    const payer = effect.kind === 'transfer' ? effect.from : effect.owner
    if (payer !== from || effect.amount === 0n) continue
    const before = moved.get(effect.asset.id)?.amount ?? 0n
    moved.set(effect.asset.id, { asset: effect.asset, amount: before + effect.amount })
  }
  return { moved, fee }
}
