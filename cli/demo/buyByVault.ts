import { join } from 'node:path'
import { payForUrl } from '../../buyer/payForUrl.ts'
import type { PayReport } from '../../buyer/payReport.ts'
import { loadVaultWallets } from '../../buyer/vault/loadVaultWallets.ts'
import { formatAmount } from '../../core/domain/money.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import type { ApprovalView } from '../../vault/approvals/approval.ts'
import { checkPayment, openVaultClient } from '../pay/openVault.ts'
import { createPaymentFiles } from '../pay/paymentFiles.ts'
import type { Demo } from './startDemo.ts'
import type { DemoVault } from './startDemoVault.ts'

export interface BuyByVaultOptions {
  readonly demo: Demo
  readonly vault: DemoVault
  readonly network: string
  readonly link: { readonly url: string; readonly price: string }
  readonly signal: AbortSignal
  /** The vault asks its owner. */
  readonly onQuestion: (id: string) => void
}

/** What an agent bought without a key of its own, and what the seller got for it. */
export interface VaultPurchase {
  readonly report: PayReport
  readonly receivedAtomic: bigint
}

/** Buys one call as an agent does: `tollgate pay LINK --vault URL`. */
export async function buyByVault(options: BuyByVaultOptions): Promise<VaultPurchase> {
  const { demo, vault, link, signal, onQuestion } = options
  const network = options.network as NetworkId
  const rpcUrl = network === demo.evm.network ? demo.evm.rpcUrl : demo.solana.rpcUrl
  const ask = await openVaultClient({ vault: vault.url, env: { TOLLGATE_VAULT_TOKEN: vault.token } })
  const onStep = () => {}
  const wallets = await loadVaultWallets(ask, {
    network,
    rpcUrl,
    check: checkPayment,
    signal,
    onStep,
    onQuestion,
  })
  const before = await demo.sellerBalance(network)
  const report = await payForUrl({
    url: `${link.url}?city=Lisbon`,
    network,
    wallets,
    rpcUrl,
    payments: createPaymentFiles(join(demo.dataDir, 'payments')),
    signal,
  })
  return { report, receivedAtomic: (await demo.sellerBalance(network)) - before }
}

/** Allows what is asked, as it is shown: `tollgate vault approve ID`. */
export async function approveAsOwner({ owner }: DemoVault, id: string): Promise<ApprovalView> {
  const path = `/v1/vault/approvals/${id}`
  const { decision_hash } = await owner.call<ApprovalView>('GET', path)
  return await owner.call<ApprovalView>('POST', `${path}/approve`, { decision_hash })
}

/** True when the call was paid, the chain says so, and the seller got exactly the price. */
export const isBought = ({ report, receivedAtomic }: VaultPurchase, price: string): boolean =>
  report.outcome === 'paid' && report.isVerified && Number(formatAmount(receivedAtomic, 6)) === Number(price)
