import { hasAccountNumber } from '../../../../core/domain/payment.ts'
import type { Receipt } from '../../../../core/evm/transferProof.ts'
import type { LookedUp, SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { reasons } from '../reasons.ts'
import { costOf } from './costOf.ts'
import { transfersIn } from './transfersIn.ts'

/**
 * What a payment that was looked up has cost whoever settles, in wei, by whichever process and key it was sent.
 *
 * @param receipt of its own transaction, where that is mined
 * @param likelyWei of one that is not: where somebody else has used the authorization it may still be, for nothing
 */
export function costOfFound(
  { attempt: sendable, withheld }: Pick<LookedUp, 'attempt' | 'withheld'>,
  outcome: SettleOutcome,
  receipt: Receipt | undefined,
  likelyWei: bigint | undefined,
  options: Pick<Required<EvmSettlerOptions>, 'maxGas' | 'maxFeePerGasWei'>,
): bigint | undefined {
  // What may not be sent now can have been sent before.
  const attempt = sendable ?? withheld ?? null
  // Nothing was signed, or a facilitator pays.
  if (attempt === null || !hasAccountNumber(attempt)) return 0n
  if (receipt !== undefined) {
    const payments = transfersIn(attempt.bytes).length
    // Where its bytes are forgotten nobody knows between how many it is shared.
    if (payments === 0 && attempt.isShared) return likelyWei
    return costOf(receipt, Math.max(1, payments), attempt.bytes, options) ?? likelyWei
  }
  // Never sent, or it never got into a block before it could not any more.
  const isUnsent = attempt.bytes === ''
  const isExpired = outcome.status === 'failed_final' && outcome.reason === reasons.validBefore
  return isUnsent || isExpired ? 0n : likelyWei
}
