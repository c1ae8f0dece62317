import { type ExpectedTransfer, findTransfer, type Receipt } from '../../../../core/evm/transferProof.ts'
import type { SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { reasons } from '../reasons.ts'
import { type AuthorizationFate, findAuthorizations } from './findAuthorizations.ts'

/** What a transaction that is mined can mean. */
export type Judged = Exclude<SettleOutcome, { readonly status: 'rejected' }>

/** How often a payment is looked up whose transaction was mined for nothing, in ms: somebody would have to send it anew. */
const RARELY_MS = 60_000

/**
 * What a mined transaction of ours means for the payment. When it did not move the money, somebody else may have moved
 * it with the same authorisation: the token's events decide, not the transaction's status. Never rejects.
 *
 * @param isShared whether the transaction was to settle other payments as well
 */
export async function judgeReceipt(
  rpc: Rpc,
  receipt: Receipt,
  expected: ExpectedTransfer,
  sinceMs: number,
  isShared = false,
): Promise<Judged> {
  const settled = findTransfer(receipt, expected)
  if (settled !== undefined) return settled
  const [found] = await findAuthorizations(rpc, [{ expected, sinceMs }], Number(receipt.blockNumber))
  return outcomeOf(found!, receipt.transactionHash) ?? minedForNothing(receipt, isShared)
}

/** What an authorisation's fate means for its payment; undefined while it is unused. */
export function outcomeOf(found: AuthorizationFate, transaction: string): Judged | undefined {
  switch (found.fate) {
    case 'paid':
      return found.settled
    case 'lost':
      return { status: 'pending', transaction, reason: reasons.pending }
    case 'spent':
      return {
        status: 'failed_final',
        transaction,
        reason: reasons.nonceUsed,
        message: `The authorization was cancelled or used for other terms, in ${found.transaction}.`,
      }
    case 'unused':
      return undefined
  }
}

/**
 * A transaction that was mined and did not use the authorisation. That is not the end of it: while it is valid anybody can
 * send it once more, and it lands as soon as what stood in its way is gone. One call of several that reverts leaves the
 * others, and the transaction, as they are: it is told like a transaction of its own that reverts.
 */
export function minedForNothing(
  receipt: Receipt,
  isShared = false,
): Extract<SettleOutcome, { status: 'pending' }> & { readonly lookAgainMs: number } {
  const isReverted = isShared || receipt.status !== '0x1'
  const what = isShared
    ? 'The transaction of several payments was mined without this one'
    : isReverted
      ? 'The transaction was mined and reverted'
      : 'The transaction succeeded without the transfer: the token moved nothing'
  return {
    status: 'pending',
    transaction: receipt.transactionHash,
    reason: isReverted ? reasons.transaction : reasons.transferEvent,
    message: `${what}. Nothing was charged so far; until the authorization expires it can still be used.`,
    lookAgainMs: RARELY_MS,
  }
}
