import type { ChannelConfig } from '../domain/channel.ts'
import { type ChannelCall, refuse } from './channelCall.ts'
import type { OpenChannel } from './openChannel.ts'
import { channelReasons as reasons } from './reasons.ts'

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
