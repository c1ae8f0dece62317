import type { Spend } from '../ports/budget.ts'
import type { Decoded } from './decoded.ts'

/**
 * What a request may cost, in the form that the budget book counts: every transfer and allowance of the signing account
 * at its full value with the one who gets it, then fee and rent together.
 */
export function budgetSpends({ effects, fee, from }: Pick<Decoded, 'effects' | 'fee' | 'from'>): Spend[] {
  const spends: Spend[] = []
  let costs = fee.payer === from ? fee.amount : 0n
  for (const effect of effects) {
    if (effect.kind === 'account' && effect.payer === from) costs += effect.rent
    if (effect.kind === 'transfer' && effect.from === from) {
      const recipient = effect.toOwner ?? effect.to
      spends.push({ asset: effect.asset.id, amount: effect.amount, recipient })
    }
    if (effect.kind === 'allowance' && effect.owner === from) {
      spends.push({ asset: effect.asset.id, amount: effect.amount, recipient: effect.spender })
    }
  }
  return costs === 0n ? spends : [...spends, { asset: fee.asset.id, amount: costs }]
}
