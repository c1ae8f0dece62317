import { networkTitle } from '../../core/domain/network.ts'
import type { ApprovalView } from '../../vault/approvals/approval.ts'
import { approveAsOwner, buyByVault, isBought, type VaultPurchase } from './buyByVault.ts'
import type { Demo } from './startDemo.ts'
import { autoApproveUpTo, type DemoVault } from './startDemoVault.ts'

export interface ShowVaultOptions {
  readonly demo: Demo
  readonly vault: DemoVault
  readonly signal: AbortSignal
  /** One line of the story. */
  readonly tell: (text: string) => void
}

/**
 * An agent buys a cheap call by its owner's vault, which pays by the rules and asks nobody.
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
  const purchase = await buyByVault({ demo, vault, network, link, signal, onQuestion: (id) => (asked = id) })
  tell(`  rules: up to ${autoApproveUpTo} USDC the owner is not asked`)
  for (const line of linesOf(purchase)) tell(line)
  return asked === undefined && isBought(purchase, link.price)
}

/**
 * The agent buys a dear call: the vault asks its owner.
 *
 * @param answer what the owner does; hears the question's id and what is asked
 * @returns whether the owner was asked, and it was bought
 */
export async function buyWithApproval(
  { demo, vault, signal, tell }: ShowVaultOptions,
  answer: (id: string) => Promise<void>,
): Promise<boolean> {
  const { network } = demo.solana
  const { dearLink: link } = demo
  tell(`• The agent calls ${link.url}: ${link.price} USDC on ${titleOf(network)}, above its limit`)
  let answered: Promise<void> | undefined
  const onQuestion = (id: string) => {
    answered = answer(id)
    // Told below, when the purchase has ended.
    answered.catch(() => {})
  }
  const purchase = await buyByVault({ demo, vault, network, link, signal, onQuestion })
  await answered
  for (const line of linesOf(purchase)) tell(line)
  return answered !== undefined && isBought(purchase, link.price)
}

/** The demo plays the owner, on the owner's own socket, and says what it allows. */
export const playOwner =
  ({ vault, tell }: ShowVaultOptions) =>
  async (id: string): Promise<void> => {
    const approved = await approveAsOwner(vault, id)
    tell(`  the vault asks its owner: ${wordsOf(approved)}`)
    tell("  the demo plays the owner and approves, on the owner's socket")
  }

const wordsOf = ({ effects }: ApprovalView): string => effects.join(' ')

const linesOf = ({ report }: VaultPurchase): string[] => [
  `  ${report.message}`,
  ...(report.transaction === null ? [] : [`  transaction  ${report.transaction}`]),
  ...(report.answer === null ? [] : [`  ${report.answer.status} ${dataOf(report.answer.body)}`]),
]

/** What the seller's API said, without the purchase beside it. */
const dataOf = (body: Uint8Array): string =>
  JSON.stringify((JSON.parse(Buffer.from(body).toString('utf8')) as { data?: unknown }).data)

const titleOf = (network: string): string => networkTitle(network)
