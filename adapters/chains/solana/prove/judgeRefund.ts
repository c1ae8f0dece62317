import { solanaPaymentKey } from '../../../../core/domain/payment.ts'
import type { RefundVerdict, TransferBack } from '../../../../core/ports/chains/refundProofs.ts'
import { tokenBalances } from '../../../../core/solana/tokenBalances.ts'
import { type LandedMeta, readMoves } from './moves.ts'
import { tokenAccountsOf } from './tokenAccountsOf.ts'

/**
 * Whether a transaction that succeeded proves that money went back: its token instructions, those that programs made
 * included, move it from the seller's associated token account to the buyer's, and the buyer's has at least the amount
 * more than before. The instructions say whose money it was; the balances, what arrived of it.
 *
 * @returns undefined when the message can not be read
 */
export function judgeRefund(
  message: Uint8Array,
  meta: LandedMeta,
  expected: TransferBack,
): RefundVerdict | undefined {
  const read = readMoves(message, meta)
  if (read === undefined) return
  const { keys, moves: moved } = read
  const [buyers, sellers] = [
    tokenAccountsOf(expected.to, expected.asset),
    tokenAccountsOf(expected.from, expected.asset),
  ]
  const after = tokenBalances(meta.postTokenBalances, keys, expected.asset)
  const before = tokenBalances(meta.preTokenBalances, keys, expected.asset)
  const back = moved.filter(({ from, to }) => buyers.has(to) && sellers.has(from))
  const arrived = [...buyers].reduce((sum, at) => sum + (after.get(at) ?? 0n) - (before.get(at) ?? 0n), 0n)

  if (after.size === 0) return { status: 'mismatch', what: 'asset' }
  if (!moved.some(({ to }) => buyers.has(to))) return { status: 'mismatch', what: 'recipient' }
  if (back.length === 0) return { status: 'mismatch', what: 'sender' }
  const sent = back.reduce((sum, { amountAtomic }) => sum + amountAtomic, 0n)
  if (sent < expected.amountAtomic || arrived < expected.amountAtomic)
    return { status: 'mismatch', what: 'amount' }
  return { status: 'proved', paymentKeys: [solanaPaymentKey(expected.network, message)] }
}
