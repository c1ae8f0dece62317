import type { ChannelId } from '../../../core/domain/channel.ts'
import type { ChannelChain } from '../../../core/ports/chains/channelChain.ts'
import { PRICE } from '../buyers.ts'
import type { Plant } from '../plant.ts'

const chain = (change: (own: ChannelChain) => Partial<ChannelChain>): Plant => ({
  channelChain: (own) => ({ ...own, ...change(own) }),
})

/** The highest voucher that a process has seen for each channel. */
function watchVouchers(own: ChannelChain) {
  const highest = new Map<ChannelId, { readonly charged: bigint; readonly signature: string }>()
  const isSigned: ChannelChain['isSigned'] = (account, id, charged, signature) => {
    const isGood = own.isSigned(account, id, charged, signature)
    if (isGood && charged > (highest.get(id)?.charged ?? 0n)) highest.set(id, { charged, signature })
    return isGood
  }
  return { highest, isSigned }
}

/** A lease that no process has. */
const SHARED_OWNER = 0

/** Mistakes about payment channels. */
export const channelPlants = {
  'a channel is sold on during a withdrawal': chain((own) => ({
    read: async (ids) => (await own.read(ids)).map((state) => ({ ...state, pendingWithdrawal: 0n })),
  })),
  "an unknown channel begins with its client's total": chain((own) => {
    const { highest, isSigned } = watchVouchers(own)
    return {
      isSigned,
      async read(ids) {
        const states = await own.read(ids)
        return states.map((state, i) => {
          const signed = highest.get(ids[i]!)?.charged ?? 0n
          return state.totalClaimed === 0n && signed > 0n
            ? { ...state, totalClaimed: signed - BigInt(PRICE) }
            : state
        })
      },
    }
  }),
  'a repeat of a lost response is charged again': {
    channels: (channels) => ({
      ...channels,
      async take(id, owner) {
        const taken = await channels.take(id, owner)
        return taken !== undefined && 'channel' in taken ? { ...taken, last: null } : taken
      },
    }),
  },
  // The condition of the total alone still charges each voucher once.
  'two gateways own one channel': {
    channels: (channels) => ({
      ...channels,
      take: (id) => channels.take(id, SHARED_OWNER),
      open: (channel) => channels.open(channel, SHARED_OWNER),
      charge: (charge) => channels.charge({ ...charge, owner: SHARED_OWNER }),
    }),
  },
  'more is claimed than was charged': chain((own) => {
    const { highest, isSigned } = watchVouchers(own)
    return {
      isSigned,
      claim: (channels, ...more) =>
        own.claim(
          channels.map((channel) => ({ ...channel, ...highest.get(channel.id) })),
          ...more,
        ),
    }
  }),
  'a charge is not on the condition of the total': {
    channels: (channels) => ({
      ...channels,
      async charge(charge) {
        await channels.charge(charge)
        return true
      },
    }),
  },
  'a charge is booked twice': {
    channelBooks: (books, execute) => ({
      ...books,
      async book(assets, limit) {
        execute('CREATE TEMP TABLE due AS SELECT * FROM channel_sums LIMIT 1')
        const moved = await books.book(assets, limit)
        execute('INSERT INTO channel_sums SELECT * FROM due; DROP TABLE due')
        return moved
      },
    }),
  },
  'a charge is never booked': {
    channelBooks: (books) => ({ ...books, book: async () => 0 }),
  },
} satisfies Readonly<Record<string, Plant>>
