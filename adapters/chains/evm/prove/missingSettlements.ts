import type { NetworkId } from '../../../../core/domain/network.ts'
import type { PaymentKey } from '../../../../core/domain/payment.ts'
import type { MissingSettlement, PastQuestion } from '../../../../core/ports/chains/pastSettlements.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { authorizedTransfers } from './authorizedTransfers.ts'
import { receiptsOf } from './pastBlocks.ts'
import type { SentTransaction } from './sentTransactions.ts'

/** What transactions of ours settled, and the books lack. */
export interface MissingSettlements {
  readonly all: readonly MissingSettlement[]
  /** Transactions that the node did not tell of. */
  readonly unread: number
  /** Whether a number of a sender was used for such a settlement. @param sender in lower case */
  accountsFor(sender: string, nonce: number): boolean
  /**
   * Reads everything that these transactions settled, to whomever, and keeps what the books lack.
   * @returns how many payments each settled; undefined for one whose receipt the node does not have
   */
  read(sent: readonly SentTransaction[]): Promise<(number | undefined)[]>
  /** That many transactions could not be looked at. */
  leftOut(transactions: number): void
}

export function createMissingSettlements(
  network: NetworkId,
  rpc: Rpc,
  { assets, missingAmong }: Pick<PastQuestion, 'assets' | 'missingAmong'>,
): MissingSettlements {
  const byKey = new Map<PaymentKey, MissingSettlement>()
  const accounted = new Set<string>()
  let unread = 0
  const nameOf = (sender: string, nonce: number) => `${sender} ${nonce}`

  return {
    get all() {
      return [...byKey.values()]
    },
    get unread() {
      return unread
    },
    accountsFor: (sender, nonce) => accounted.has(nameOf(sender, nonce)),
    leftOut: (transactions) => void (unread += transactions),
    async read(sent) {
      const receipts = await receiptsOf(
        rpc,
        sent.map(({ transaction }) => transaction),
      )
      const settled = sent.map(({ transaction }) => {
        const receipt = receipts.get(transaction)
        return receipt && authorizedTransfers(network, receipt, assets)
      })
      const missing = await missingAmong(settled.flatMap((all = []) => all.map(({ key }) => key)))
      for (const [i, { from, nonce }] of sent.entries()) {
        const lacking = settled[i]?.filter(({ key }) => missing.has(key)) ?? []
        if (settled[i] === undefined) unread++
        if (lacking.length > 0) accounted.add(nameOf(from, nonce))
        for (const one of lacking) byKey.set(one.key, one)
      }
      return settled.map((all) => all?.length)
    },
  }
}
