import { checksumAddress } from '../evm/hex.ts'
import type { ChannelBook } from './channelBook.ts'
import {
  type ChannelCall,
  type ChannelReceipt,
  channelStateOf,
  correct,
  refuse,
  unavailable,
} from './channelCall.ts'
import type { OpenChannel } from './openChannel.ts'
import { channelReasons as reasons } from './reasons.ts'

/** How long the block of a refund that was sent is waited for before the refund is sent again, in ms. */
const PENDING_MS = 300_000

/**
 * Claims what a channel was charged and refunds the rest, or a part of it, in one transaction. The call holds the channel.
 *
 * @returns the receipt
 * @throws the refusal
 */
export async function refund(
  call: ChannelCall,
  open: OpenChannel,
  book: ChannelBook,
): Promise<ChannelReceipt> {
  const { payment, offer } = call
  const { chain } = offer.channels
  const { config, channelId, maxClaimable, signature, refundAmount } = payment
  if (!chain.isSigned(config.payerAuthorizer, channelId, maxClaimable, signature))
    throw refuse(reasons.signature, "Expected a voucher that the channel's payerAuthorizer has signed.")
  if (maxClaimable !== open.channel.charged) throw correct(call, open)
  if (refundAmount === 'invalid')
    throw refuse(reasons.refundAmount, 'Expected amount to be positive decimal digits.')
  const read = () =>
    book.read([open], chain).catch(() => {
      throw unavailable(reasons.rpc, 'The gateway cannot query the chain now.')
    })
  await read()
  const earlier = open.pendingRefund
  if (earlier !== null && performance.now() - open.refundSentAtMs < PENDING_MS) throw pending()
  const before = open.channel
  const left = before.balance - before.charged
  if (left <= 0n)
    throw refuse(reasons.refundNoBalance, 'Expected a channel with a balance, got none that is left.')
  // A refund costs gas, so a smaller part than a deposit is refunded only if nothing else is left.
  if (refundAmount !== null && refundAmount < left && refundAmount < offer.minDepositAtomic)
    throw refuse(
      reasons.refundAmount,
      `Expected a refund of at least ${offer.minDepositAtomic} atomic units or of all that is left, got ${refundAmount}.`,
    )
  const asked = refundAmount === null || refundAmount > left ? left : refundAmount
  // Only one of two refunds with the same nonce can land, and it must not take more than is kept for it.
  const amount = earlier === null ? asked : earlier.amount
  const noted = { nonce: before.refundNonce, amount }
  if (!(await book.store(open)) || !(await book.noteRefund(open, noted)))
    throw unavailable(reasons.busy, 'Another process has this payment channel.')
  open.refundSentAtMs = performance.now()
  let sent = await chain.refund({ channel: open.channel, amount })
  // The seller may be unable to receive, which must not keep the buyer's money.
  if (sent.status === 'refused' && sent.isRevert)
    sent = await chain.refund({ channel: open.channel, amount }, false)
  if (sent.status === 'refused' || sent.status === 'reverted') await book.noteRefund(open, earlier)
  if (sent.status === 'refused') {
    if (!sent.isRevert) throw unavailable(reasons.rpc, sent.message)
    throw refuse(reasons.refundSimulation, `The refund would fail on chain: ${sent.message}`)
  }
  if (sent.status === 'reverted')
    throw refuse(reasons.refundFailed, 'The refund was mined and reverted. Nothing was moved.')
  await read()
  if (open.pendingRefund !== null) throw pending()
  const { network, balance } = open.channel
  return {
    success: true,
    transaction: sent.transaction,
    network,
    payer: checksumAddress(config.payer),
    amount: String(before.balance - balance),
    extra: { channelState: channelStateOf(open) },
  }
}

const pending = () =>
  refuse(
    'settlement_pending',
    'The refund was sent, and is not in a block yet. Request it again to see its outcome.',
    'settlement_pending',
  )
