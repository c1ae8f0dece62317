import { join } from 'node:path'
import { payForUrl } from '../../buyer/payForUrl.ts'
import type { PayReport } from '../../buyer/payReport.ts'
import { loadVaultWallets } from '../../buyer/vault/loadVaultWallets.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { type NetworkId, networkTitle } from '../../core/domain/network.ts'
import type { ApprovalView } from '../../vault/approvals/approval.ts'
import { checkPayment, openVaultClient } from '../pay/openVault.ts'
import { createPaymentFiles } from '../pay/paymentFiles.ts'
import type { Demo } from './startDemo.ts'
import { autoApproveUpTo, type DemoVault } from './startDemoVault.ts'

interface BuyByVaultOptions {
  readonly demo: Demo
  readonly vault: DemoVault
  readonly network: string
  readonly link: { readonly url: string; readonly price: string }
  readonly signal: AbortSignal
  /** Called when the vault requires its owner's approval. */
  readonly onApprovalRequest: (id: string) => void
}

/** The purchase of an agent without a key, and the amount that the seller received. */
interface VaultPurchase {
  readonly report: PayReport
  readonly receivedAtomic: bigint
}

/** Buys one call as an agent does: `tollgate pay LINK --vault URL`. */
async function buyByVault(options: BuyByVaultOptions): Promise<VaultPurchase> {
  const { demo, vault, link, signal, onApprovalRequest } = options
  const network = options.network as NetworkId
  const rpcUrl = network === demo.evm.network ? demo.evm.rpcUrl : demo.solana.rpcUrl
  const callVault = await openVaultClient({ vault: vault.url, env: { TOLLGATE_VAULT_TOKEN: vault.token } })
  const onStep = () => {}
  const wallets = await loadVaultWallets(callVault, {
    network,
    rpcUrl,
    check: checkPayment,
    signal,
    onStep,
    onApprovalRequest,
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

/** Approves exactly what the vault shows, as `tollgate vault approve ID` does. */
export async function approveAsOwner({ owner }: DemoVault, id: string): Promise<ApprovalView> {
  const path = `/v1/vault/approvals/${id}`
  const { decision_hash } = await owner.call<ApprovalView>('GET', path)
  return await owner.call<ApprovalView>('POST', `${path}/approve`, { decision_hash })
}

/** True if the call was paid, the chain confirms it, and the seller received exactly the price. */
const isBought = ({ report, receivedAtomic }: VaultPurchase, price: string): boolean =>
  report.outcome === 'paid' && report.isVerified && Number(formatAmount(receivedAtomic, 6)) === Number(price)

export interface ShowVaultOptions {
  readonly demo: Demo
  readonly vault: DemoVault
  readonly signal: AbortSignal
  /** Prints one line of the demo. */
  readonly tell: (text: string) => void
}

/**
 * An agent buys a cheap call through its owner's vault, which pays within the rules and needs no approval.
 *
 * @returns whether it was bought
 */
export async function buyWithinRules({ demo, vault, signal, tell }: ShowVaultOptions): Promise<boolean> {
  const { network } = demo.evm
  const { link } = demo
  tell(
    `• An agent without a key calls ${link.url} and asks the vault to pay ${link.price} USDC on ${titleOf(network)}`,
  )
  let asked: string | undefined
  const purchase = await buyByVault({
    demo,
    vault,
    network,
    link,
    signal,
    onApprovalRequest: (id) => (asked = id),
  })
  tell(`  rules: up to ${autoApproveUpTo} USDC needs no approval`)
  for (const line of linesOf(purchase)) tell(line)
  return asked === undefined && isBought(purchase, link.price)
}

/**
 * The agent buys an expensive call, which needs the owner's approval.
 *
 * @param answer the owner's action; receives the approval's id and content
 * @returns whether approval was required and the call was bought
 */
export async function buyWithApproval(
  { demo, vault, signal, tell }: ShowVaultOptions,
  answer: (id: string) => Promise<void>,
): Promise<boolean> {
  const { network } = demo.solana
  const { expensiveLink: link } = demo
  tell(`• The agent calls ${link.url}: ${link.price} USDC on ${titleOf(network)}, above its limit`)
  let answered: Promise<void> | undefined
  const onApprovalRequest = (id: string) => {
    answered = answer(id)
    // A failure is reported below, after the purchase has ended.
    answered.catch(() => {})
  }
  const purchase = await buyByVault({ demo, vault, network, link, signal, onApprovalRequest })
  await answered
  for (const line of linesOf(purchase)) tell(line)
  return answered !== undefined && isBought(purchase, link.price)
}

/** The demo acts as the owner on the owner's socket, and prints what it approves. */
export const playOwner =
  ({ vault, tell }: ShowVaultOptions) =>
  async (id: string): Promise<void> => {
    const approved = await approveAsOwner(vault, id)
    tell(`  the vault needs its owner's approval: ${wordsOf(approved)}`)
    tell("  the demo acts as the owner and approves, on the owner's socket")
  }

const wordsOf = ({ effects }: ApprovalView): string => effects.join(' ')

const linesOf = ({ report }: VaultPurchase): string[] => [
  `  ${report.message}`,
  ...(report.transaction === null ? [] : [`  transaction  ${report.transaction}`]),
  ...(report.response === null ? [] : [`  ${report.response.status} ${dataOf(report.response.body)}`]),
]

/** The seller's own response, without the purchase fields. */
const dataOf = (body: Uint8Array): string =>
  JSON.stringify((JSON.parse(Buffer.from(body).toString('utf8')) as { data?: unknown }).data)

const titleOf = (network: string): string => networkTitle(network)
