import type { PayOptions } from '../payOptions.ts'
import { type ChannelRecord, signedIn, withoutDeposit } from './channelRecord.ts'
import type { ChannelReader, ChannelState } from './channelState.ts'

export interface KnownChannel {
  /** Undefined if this buyer has no record of the channel. */
  readonly record: ChannelRecord | undefined
  readonly state: ChannelState
}

/** The channel by the record and the chain. A deposit that has landed or expired is no longer in the record. */
export async function readKnown(
  payments: PayOptions['payments'],
  id: string,
  reader: ChannelReader,
): Promise<KnownChannel> {
  let record = await payments.findChannel(id)
  if (record !== undefined && signedIn(record).deposit !== null) {
    const fate = await reader.depositFate(signedIn(record))
    if (fate !== 'open') record = withoutDeposit(record)
  }
  // The state is read after the deposit's fate, so that a deposit that has landed is in it.
  const state = await reader.state(id)
  if (record !== undefined && BigInt(record.charged) < state.totalClaimed)
    record = { ...record, charged: String(state.totalClaimed) }
  return { record, state }
}

/** A channel with money, in atomic units. */
export interface UnspentChannel {
  readonly record: ChannelRecord
  /** What is left by the chain. */
  readonly left: bigint
  /** A signed deposit that can still land. */
  readonly open: bigint
}

/**
 * The recorded channels that are asked for and have money. A channel that cannot be read is left out.
 *
 * @param readerOf the reader of a channel's network. It may throw
 */
export async function unspentChannels(
  payments: PayOptions['payments'],
  isAskedFor: (record: ChannelRecord) => boolean,
  readerOf: (record: ChannelRecord) => ChannelReader,
): Promise<UnspentChannel[]> {
  const all = (await payments.listChannels()).filter(isAskedFor).map(async (one) => {
    try {
      const { record = one, state } = await readKnown(payments, one.id, readerOf(one))
      const left = state.balance - BigInt(record.charged)
      return { record, left: left > 0n ? left : 0n, open: signedIn(record).deposit?.amount ?? 0n }
    } catch {
      return { record: one, left: 0n, open: 0n }
    }
  })
  return (await Promise.all(all)).filter(({ left, open }) => left + open > 0n)
}
