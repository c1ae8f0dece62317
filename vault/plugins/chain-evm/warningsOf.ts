import type { AssetTable } from '../../effects/assets.ts'
import type { VaultChain } from '../../effects/chains.ts'
import type { Effect } from '../../effects/effect.ts'

const zero = `0x${'0'.repeat(40)}`
const burn = '0x000000000000000000000000000000000000dEaD'

/** What the owner should know about the effects beside themselves; one sentence each, none twice. */
export function warningsOf(
  effects: readonly Effect[],
  from: string,
  { chain, assets }: { readonly chain: VaultChain; readonly assets: AssetTable },
): string[] {
  const warnings = new Set<string>()
  for (const effect of effects) {
    if (effect.kind === 'opaque') warnings.add('A part of this was not understood: it may do anything.')
    if (effect.kind !== 'transfer' && effect.kind !== 'allowance') continue
    const other = effect.kind === 'transfer' ? effect.to : effect.spender
    const owner = effect.kind === 'transfer' ? effect.from : effect.owner
    if (owner !== from) warnings.add('It moves money of another account.')
    if (effect.kind === 'transfer' && (other === zero || other === burn))
      warnings.add('The recipient is an address that burns.')
    if (assets.byAddress(chain, other) !== undefined) warnings.add('The recipient is a token, not a wallet.')
    if (other === from) warnings.add('The recipient is this wallet itself.')
    if (!effect.asset.isPinned)
      warnings.add(`The contract ${effect.asset.address} is not known: it may be a coin's or an NFT's.`)
    if (effect.kind === 'allowance' && effect.isUnlimited) warnings.add('The allowance has no limit.')
    if (effect.kind === 'allowance' && effect.submitBefore !== undefined && effect.expiresAt === undefined)
      warnings.add('The deadline is for submitting it: what it allows has no end.')
    if (effect.kind === 'allowance' && effect.isAdded === true)
      warnings.add('The allowance is added to one that may be there already.')
  }
  return [...warnings]
}
