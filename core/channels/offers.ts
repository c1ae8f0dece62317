import { channelScheme } from '../domain/channel.ts'
import { convertPrice, parseAmount } from '../domain/money.ts'
import type { NetworkId } from '../domain/network.ts'
import { checksumAddress } from '../evm/hex.ts'
import type { Offer } from '../offers/offers.ts'
import type { ChannelChain } from '../ports/chains/channelChain.ts'

/** Payment channels on one network, as the operator configured them. */
export interface ChannelNetwork {
  readonly chain: ChannelChain
  /** Time between a payer's request to withdraw and the withdrawal, in seconds. */
  readonly withdrawDelaySeconds: number
  /** Smallest deposit, in USDC as a decimal string. */
  readonly minDeposit: string
  /** Channels are claimed when they owe this much, in USDC as a decimal string. */
  readonly claimAmount: string
  /** Channels are claimed when their oldest unclaimed call is this old, in ms. */
  readonly claimAfterMs: number
  /** Time between two checks of the channels on chain, in ms. */
  readonly watchMs: number
}

/** An offer to pay by a channel, beside the offer of scheme `exact` or `upto` with the same asset and seller's wallet. */
export interface ChannelOffer extends Offer {
  readonly channels: ChannelNetwork
  /** The price, or the most that a call with a price by use costs. */
  readonly priceAtomic: bigint
  readonly minDepositAtomic: bigint
  /** The seller's wallet, the token and the authorizer in lower case. */
  readonly receiver: string
  readonly token: string
}

/** The amount that the 402 proposes as deposit, in calls. The client's own default is five. */
const CALLS_PER_DEPOSIT = 10n

/**
 * The channel offers beside these offers. A link that charges before the seller's response has none, because a channel is charged
 * only for a response.
 *
 * @param networks the networks with channels, by id
 */
export function channelOffers(
  offers: readonly Offer[],
  networks: ReadonlyMap<NetworkId, ChannelNetwork>,
): ChannelOffer[] {
  return offers.flatMap((offer): ChannelOffer[] => {
    const channels = networks.get(offer.asset.network)
    const { asset, terms } = offer
    const { eip712, transferMethod } = asset
    if (channels === undefined || offer.isClosed) return []
    // A deposit by ERC-3009 is signed in the token's domain.
    if (eip712 === undefined && transferMethod === undefined) return []
    const priceAtomic = BigInt(terms.amount)
    const least = convertPrice(parseAmount(channels.minDeposit, 6), asset.usdPerUnit, asset.decimals)
    const usual = CALLS_PER_DEPOSIT * priceAtomic
    const extra = {
      ...(eip712 && { name: eip712.name, version: eip712.version }),
      ...(transferMethod !== undefined && { assetTransferMethod: transferMethod }),
      receiverAuthorizer: checksumAddress(channels.chain.authorizer),
      withdrawDelay: channels.withdrawDelaySeconds,
      minDeposit: String(usual > least ? usual : least),
    }
    return [
      {
        ...offer,
        terms: { ...terms, scheme: channelScheme, extra },
        channels,
        priceAtomic,
        minDepositAtomic: least,
        receiver: terms.payTo.toLowerCase(),
        token: asset.address.toLowerCase(),
      },
    ]
  })
}
