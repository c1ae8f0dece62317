import type { Spend } from '../ports/budget.ts'
import type { AssetRef } from './assets.ts'
import type { Decoded } from './decoded.ts'

/**
 * What a request may cost, in the form that the budget book counts: every transfer and allowance of the signing account
 * at its full value with the one who gets it; the rent of accounts, with the one who gets the account; the fee. Fee and
 * rent count once more under {@link feesId}.
 */
export function budgetSpends({ effects, fee, from }: Pick<Decoded, 'effects' | 'fee' | 'from'>): Spend[] {
  const spends: Spend[] = []
  const native = fee.asset.id
  const own = fee.payer === from ? fee.amount : 0n
  let costs = own
  for (const effect of effects) {
    if (effect.kind === 'account' && effect.payer === from) {
      costs += effect.rent
      spends.push({
        asset: native,
        amount: effect.rent,
        ...(effect.owner !== from && { recipient: effect.owner }),
      })
    }
    if (effect.kind === 'transfer' && effect.from === from) {
      const recipient = effect.toOwner ?? effect.to
      spends.push({ asset: effect.asset.id, amount: effect.amount, recipient })
    }
    if (effect.kind === 'allowance' && effect.owner === from) {
      spends.push({ asset: effect.asset.id, amount: effect.amount, recipient: effect.spender })
    }
  }
  if (own > 0n) spends.push({ asset: native, amount: own })
  return costs === 0n ? spends : [...spends, { asset: feesId(fee.asset), amount: costs }]
}

/**
 * Under which name budgets count what goes to a chain's network: fees, and rent of accounts. It counts under the native
 * asset too, so that a limit of that one knows everything that leaves; this name keeps the fees apart from what is sent.
 *
 * @param native the native asset of the chain: `eip155:8453/slip44:60` gives `eip155:8453/slip44:60/fees`
 */
export const feesId = ({ id }: Pick<AssetRef, 'id'>): string => `${id}/fees`
