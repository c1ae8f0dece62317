import type { SettleOutcome } from '../../../core/ports/settler.ts'
import { findAuthorization } from './findAuthorization.ts'
import { reasons } from './reasons.ts'
import type { Rpc } from './rpc.ts'
import { type ExpectedTransfer, provesTransfer, type Receipt } from './transferProof.ts'

/**
 * What a mined transaction of ours means for the payment. When it did not move the money, somebody else may have moved
 * it with the same authorisation: the token's events decide, not the transaction's status.
 *
 * @throws {RpcUnreachable} {RpcRefused} when that can't be found out now
 */
export async function judgeReceipt(
  rpc: Rpc,
  receipt: Receipt,
  expected: ExpectedTransfer,
  sinceMs: number,
): Promise<SettleOutcome> {
  const transaction = receipt.transactionHash
  if (provesTransfer(receipt, expected)) return { status: 'settled', transaction }
  const found = await findAuthorization(rpc, expected, Number(receipt.blockNumber), sinceMs)
  if (found.fate === 'paid') return { status: 'settled', transaction: found.transaction }
  if (found.fate === 'lost') return { status: 'pending', transaction, reason: reasons.pending }
  if (found.fate === 'spent') {
    return {
      status: 'failed_final',
      transaction,
      reason: reasons.nonceUsed,
      message: `The authorization was cancelled or used for other terms, in ${found.transaction}.`,
    }
  }
  return receipt.status === '0x1'
    ? {
        status: 'failed_final',
        transaction,
        reason: reasons.transferEvent,
        message: 'The transaction succeeded without the transfer: the token moved nothing.',
      }
    : {
        status: 'failed_final',
        transaction,
        reason: reasons.transaction,
        message: 'The transaction was mined and reverted.',
      }
}
