import type { Channel } from '../domain/channel.ts'
import type { ChannelChain } from '../ports/chains/channelChain.ts'
import type { ChannelPayout, Channels } from '../ports/store/channels.ts'

/** Wallets that are read from the chain in one request. */
const MAX_BATCH = 50

interface Deps {
  readonly channels: Pick<Channels, 'payouts' | 'notePayouts'>
  readonly chain: Pick<ChannelChain, 'network' | 'unsettled'>
}

/**
 * Notes what was claimed and is not paid out to the sellers' wallets, so that it can be shown without a query of the chain. A claim pays
 * out at once, as does a refund that claims, unless the wallet cannot receive.
 *
 * @param seen channels whose claimed total may have changed. The wallets that are owed money already are read too
 * @throws if the chain cannot be read
 */
export async function notePayouts(
  { channels, chain }: Deps,
  seen: Iterable<Pick<Channel, 'storeId' | 'config'>>,
): Promise<void> {
  const known = await channels.payouts(chain.network)
  const payouts = new Map(known.map((payout) => [nameOf(payout), payout]))
  for (const { storeId, config } of seen) {
    const payout = { storeId, receiver: config.receiver, token: config.token, dueAtomic: 0n }
    if (!payouts.has(nameOf(payout))) payouts.set(nameOf(payout), payout)
  }
  const all = [...payouts.values()]
  for (let i = 0; i < all.length; i += MAX_BATCH) {
    const some = all.slice(i, i + MAX_BATCH)
    const due = await chain.unsettled(some)
    const changed = some
      .map((payout, n) => ({ ...payout, dueAtomic: due[n]! }))
      .filter(({ dueAtomic }, n) => dueAtomic !== some[n]!.dueAtomic)
    if (changed.length > 0) await channels.notePayouts(chain.network, changed)
  }
}

const nameOf = ({ storeId, receiver, token }: ChannelPayout): string => `${storeId} ${receiver} ${token}`
