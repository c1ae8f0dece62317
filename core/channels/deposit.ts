import { TollgateError } from '../errors/error.ts'
import type { DepositOutcome } from '../ports/chains/channelChain.ts'
import { isByPermit2 } from '../x402/types.ts'
import type { ChannelBook } from './channelBook.ts'
import { type ChannelCall, refuse, unavailable } from './channelCall.ts'
import type { OpenChannel } from './openChannel.ts'
import { channelReasons as reasons } from './reasons.ts'

/** Shortest time until the authorization of a deposit ends, in seconds. The reference facilitator has the same limit. */
const MIN_LEAD_SECONDS = 6

/**
 * Sends the deposit of a call and waits for its block. The call holds the channel, and its voucher is judged.
 *
 * If an earlier attempt of the same deposit has landed, its authorization is used, and the simulation fails. The channel's balance
 * then shows the deposit, and the call goes on.
 *
 * @throws the refusal
 */
export async function deposit(
  call: ChannelCall,
  open: OpenChannel,
  book: ChannelBook,
  storeId: string,
): Promise<void> {
  const { offer, payment } = call
  const { chain } = offer.channels
  const given = payment.deposit!
  if ('permit2' in given !== isByPermit2(offer.terms))
    throw isByPermit2(offer.terms)
      ? refuse(
          reasons.permit2Required,
          'Expected a deposit by Permit2, as extra.assetTransferMethod of the offer says.',
        )
      : refuse(
          reasons.erc3009Required,
          'Expected a deposit by ERC-3009 (receiveWithAuthorization), got one by Permit2.',
        )
  if (given.amount < offer.minDepositAtomic)
    throw refuse(
      reasons.depositTooSmall,
      `Expected a deposit of at least ${offer.minDepositAtomic} atomic units, got ${given.amount}.`,
    )
  if (payment.maxClaimable > open.maxTotal + given.amount)
    throw refuse(reasons.exceedsBalance, 'Expected a deposit that covers the voucher, got a smaller one.')
  const leadSeconds = Number(given.validBefore) - Date.now() / 1_000
  const sent: DepositOutcome =
    leadSeconds < MIN_LEAD_SECONDS
      ? {
          status: 'refused',
          isRevert: true,
          message: 'The authorization has expired.',
          reason: 'permit2' in given ? reasons.permit2Deadline : reasons.validBefore,
        }
      : await chain.deposit(payment.config, given, storeId)
  await book.read([open], chain).catch(() => {
    throw unavailable(reasons.rpc, 'The gateway cannot query the chain now.')
  })
  if (sent.status === 'done') call.depositTransaction = sent.transaction
  if (payment.maxClaimable <= open.maxTotal) return
  switch (sent.status) {
    case 'pending':
    case 'done':
      throw depositPending()
    case 'reverted':
      throw refuse(reasons.depositFailed, 'The deposit was mined and reverted. Nothing was charged.')
    case 'refused':
      if (!sent.isRevert) throw unavailable(reasons.rpc, sent.message)
      throw refusalOf(sent.reason, sent.message, sent.extra)
  }
}

/** Refuses a voucher over more than the contract has for it. */
export function assertCovered({ payment: { type, maxClaimable } }: ChannelCall, open: OpenChannel): void {
  const { channel, maxTotal } = open
  if (maxClaimable <= maxTotal) return
  if (type === 'deposit') throw depositPending()
  if (channel.balance === 0n)
    throw refuse(
      reasons.notFound,
      'Expected a channel with a deposit, got none in the contract. Deposit first.',
    )
  throw refuse(
    reasons.exceedsBalance,
    `Expected a voucher of at most ${maxTotal} atomic units, which is the deposit less requested withdrawals and refunds, got one over ${maxClaimable}. Nothing was charged. Deposit more.`,
  )
}

const depositPending = (): TollgateError =>
  refuse(
    'settlement_pending',
    'The deposit was sent, and is not in a block yet. Repeat the same call with the same payment; do not deposit again.',
    'settlement_pending',
  )

const refusalOf = (reason: string | undefined, message: string, extra: DepositOutcome['extra']) =>
  reason === undefined
    ? refuse(reasons.depositSimulation, `The deposit would fail on chain: ${message}`)
    : new TollgateError('invalid_payment', message, { reason, ...(extra !== undefined && { extra }) })
