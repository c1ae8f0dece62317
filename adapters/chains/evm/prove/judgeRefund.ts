import { evmPaymentKey, evmPaymentKeyPrefix } from '../../../../core/domain/payment.ts'
import { quantity } from '../../../../core/evm/quantity.ts'
import { topics } from '../../../../core/evm/token.ts'
import { readTransferEvent } from '../../../../core/evm/transferEvent.ts'
import type { LogEntry, Receipt } from '../../../../core/evm/transferProof.ts'
import { addressWord } from '../../../../core/evm/words.ts'
import type { RefundVerdict, TransferBack } from '../../../../core/ports/chains/refundProofs.ts'

/**
 * Whether a receipt proves that money went back: the token's own events say that at least the amount went from the
 * seller's wallet to the buyer's, less what came back in the same transaction, and the sale came first.
 *
 * @throws {RpcUnreachable} when a node wrote a place in the chain that is none
 */
export function judgeRefund(receipt: Receipt, sale: Receipt, expected: TransferBack): RefundVerdict {
  if (receipt.status !== '0x1') return { status: 'reverted' }
  const said = receipt.logs.filter((log) => log.address.toLowerCase() === expected.asset.toLowerCase())
  const moved = said.flatMap((log) => readTransferEvent(log) ?? [])
  const [seller, buyer] = [addressWord(expected.from), addressWord(expected.to)]
  const toBuyer = moved.filter(({ to }) => to === buyer)
  const back = toBuyer.filter(({ from }) => from === seller)
  const forth = moved.filter(({ from, to }) => from === buyer && to === seller)
  if (moved.length === 0) return { status: 'mismatch', what: 'asset' }
  if (toBuyer.length === 0) return { status: 'mismatch', what: 'recipient' }
  if (back.length === 0) return { status: 'mismatch', what: 'sender' }
  if (sum(back) - sum(forth) < expected.amountAtomic) return { status: 'mismatch', what: 'amount' }
  if (!isLater(receipt, sale)) return { status: 'mismatch', what: 'order' }
  return { status: 'proved', paymentKeys: paymentKeysOf(said, expected) }
}

/** The authorisations of the seller's wallet that the transaction used: each may be a payment for a purchase. */
function paymentKeysOf(said: readonly LogEntry[], { network, asset, from }: TransferBack): string[] {
  const prefix = evmPaymentKeyPrefix(network, asset)
  return said
    .filter((log) => log.topics[0] === topics.authorizationUsed)
    .filter((log) => log.topics[1]?.slice(2) === addressWord(from))
    .map((log) => evmPaymentKey(prefix, from.toLowerCase(), log.topics[2]!.toLowerCase()))
}

const sum = (moved: readonly { readonly amountAtomic: bigint }[]): bigint =>
  moved.reduce((total, { amountAtomic }) => total + amountAtomic, 0n)

function isLater(receipt: Receipt, than: Receipt): boolean {
  const [block, sold] = [quantity(receipt.blockNumber), quantity(than.blockNumber)]
  if (block !== sold) return block > sold
  return quantity(receipt.transactionIndex) > quantity(than.transactionIndex)
}
