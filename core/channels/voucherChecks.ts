import { type ChannelConfig, isPublic } from '../domain/channel.ts'
import { identifierTaken } from '../payments/refusals.ts'
import { type ChannelCall, correct, purchaseIdOf, refuse } from './channelCall.ts'
import type { OpenChannel, Turn } from './openChannel.ts'
import { channelReasons as reasons } from './reasons.ts'

/**
 * How long a call that has cost nothing is repeated from its stored response, in ms. Its voucher's total stays the next one, so a later
 * call with the same request is a new call and no repeat.
 */
const FREE_REPEAT_MS = 5_000

/** A refund signs the total itself. */
export const turnOf = ({ payment, base, requestHash }: ChannelCall): Turn => ({
  base: payment.type === 'refund' ? payment.maxClaimable : base,
  requestHash,
})

/** Whether the call is the last charged one again, whose response is stored. */
export function isRepeat(
  { payment, offer, requestHash, identifier }: ChannelCall,
  { last, lastAtMs, channel }: OpenChannel,
): boolean {
  const { maxClaimable } = payment
  if (last === null || !last.isStored || requestHash !== last.requestHash) return false
  if (maxClaimable !== last.voucherTotal) return false
  const isNext = maxClaimable === channel.charged + offer.priceAtomic
  const isNamed = identifier !== null && identifier === last.identifier
  return !isNext || isNamed || performance.now() - lastAtMs < FREE_REPEAT_MS
}

/** Refuses another call with the identifier of the last charged one. Only the payer learns that it was used. */
export function assertFreshIdentifier(call: ChannelCall, { last, channel }: OpenChannel): void {
  const { identifier, payment, offer } = call
  if (identifier === null || last === null || identifier !== last.identifier) return
  const { maxClaimable } = payment
  if (maxClaimable === last.voucherTotal && maxClaimable !== channel.charged + offer.priceAtomic) return
  assertSigned(call)
  throw identifierTaken({ purchaseId: purchaseIdOf(channel.id, last.voucherTotal) })
}

/**
 * Refuses a voucher that is claimed already, before it waits for the channel. Its signature is public, so a stranger could block the
 * channel with it, or buy calls if it allows more than was charged.
 */
export function assertUnclaimed(call: ChannelCall, open: OpenChannel): void {
  const { channel } = open
  const { maxClaimable, type } = call.payment
  if (!isPublic(channel, maxClaimable) || (type === 'refund' && maxClaimable === channel.charged)) return
  if (!open.isStored) return
  // A claim of an earlier voucher may be seen only now, so the last call's voucher is taken for public. Its repeat buys nothing more.
  if (maxClaimable > channel.totalClaimed && isRepeat(call, open)) return
  assertSigned(call)
  if (type === 'refund' || maxClaimable !== channel.charged + call.offer.priceAtomic)
    throw correct(call, open)
  throw refuse(
    reasons.published,
    'Expected a voucher that is not public, got one whose signature a claim has published. Nothing was charged. Pay this call in another way, or first a call at another price.',
  )
}

/** Compares the fields that {@link termsFault} does not compare with the offer. */
const isSameConfig = (a: ChannelConfig, b: ChannelConfig): boolean =>
  a.payer === b.payer &&
  a.payerAuthorizer === b.payerAuthorizer &&
  a.receiver === b.receiver &&
  a.receiverAuthorizer === b.receiverAuthorizer &&
  a.token === b.token &&
  a.withdrawDelay === b.withdrawDelay &&
  a.salt === b.salt

/** Checks the channel's terms against the offer, which has the link's own. @returns the refusal, if they differ */
export function termsFault(
  { payment: { config, channelId }, offer }: ChannelCall,
  open: OpenChannel | undefined,
): Error | undefined {
  const { chain, withdrawDelaySeconds } = offer.channels
  if (config.receiver !== offer.receiver)
    return refuse(reasons.receiver, `Expected a channel to ${offer.terms.payTo}.`)
  if (config.receiverAuthorizer !== chain.authorizer)
    return refuse(reasons.receiverAuthorizer, 'Expected the receiverAuthorizer of the offer.')
  if (config.token !== offer.token)
    return refuse(reasons.token, `Expected a channel in ${offer.terms.asset}.`)
  if (config.withdrawDelay !== withdrawDelaySeconds)
    return refuse(reasons.withdrawDelay, `Expected a withdrawDelay of ${withdrawDelaySeconds} seconds.`)
  // The id is the hash of the config, so it needs no hash if the channel in memory has the same config.
  const isKnown = open !== undefined && isSameConfig(open.channel.config, config)
  if (!isKnown && chain.channelId(config) !== channelId)
    return refuse(reasons.channelId, 'Expected the channelId to be the hash of channelConfig.')
  return undefined
}

/** Checks the voucher's signature once. @throws the refusal */
export function assertSigned(call: ChannelCall): void {
  if (call.isSigned) return
  const { payment, offer } = call
  const { config, channelId, maxClaimable, signature } = payment
  call.isSigned = offer.channels.chain.isSigned(config.payerAuthorizer, channelId, maxClaimable, signature)
  if (call.isSigned) return
  throw refuse(
    reasons.signature,
    "Expected a voucher that the channel's payerAuthorizer has signed by plain ECDSA (65 bytes, low s, v 27 or 28). A payerAuthorizer of zero is not supported.",
  )
}
