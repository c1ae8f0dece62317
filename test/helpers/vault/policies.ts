import { pinnedAssets } from '../../../vault/effects/assets.ts'
import { startVault } from './startVault.ts'
import { smallPayments } from './transfers.ts'

export const noWait = { prefer: 'wait=0' }

export const asset = pinnedAssets.bySymbol('base', 'USDC')!.id

export async function startWithPolicy(t: Parameters<typeof startVault>[0], policy: object = smallPayments) {
  const vault = await startVault(t)
  const agent = await vault.agent('payer', ['wallet.base', 'wallet.ethereum'])
  await vault.api.policies.set('payer', policy, vault.owner)
  const spent = () =>
    vault.api.budget(vault.owner, 'payer').budget.find((line) => line.asset === asset)?.spent ?? '0'
  return { vault, agent, spent }
}

/** A day of five, of which one may go without asking. */
export const fiveADay = {
  assets: [{ chain: 'base', symbol: 'USDC', perTransaction: '5', perDay: '5', autoApproveUpTo: '1' }],
  recipients: 'any',
}
