import type { ChannelConfig } from '../../core/domain/channel.ts'
import { BATCH_SETTLEMENT_ADDRESS } from '../../core/domain/channelHashes.ts'
import { checksumAddress } from '../../core/evm/hex.ts'
import { startDeadline } from '../httpCall.ts'
import { DEFAULT_TIMEOUT_MS, type PayOptions } from '../payOptions.ts'
import { type ChannelRecord, signedIn } from './channelRecord.ts'
import { ChannelReader } from './channelState.ts'
import { inUnits } from './concludeCall.ts'
import { unspentChannels } from './knownChannel.ts'

/** A sentence for each channel of the origin that has money left, with the payer's own calls, which need no seller. */
export async function withdrawalsAt(
  url: URL,
  options: Pick<PayOptions, 'payments' | 'rpcUrl' | 'signal' | 'timeoutMs'>,
): Promise<string[]> {
  const { all } = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  const readerOf = ({ network }: ChannelRecord) => new ChannelReader(network, options.rpcUrl, all)
  const isHere = (record: ChannelRecord) => URL.parse(record.url)?.origin === url.origin
  const unspent = await unspentChannels(options.payments, isHere, readerOf)
  return unspent.map(({ record, left, open }) => {
    const { config } = signedIn(record)
    const token = { network: record.network, asset: checksumAddress(config.token.toLowerCase()) }
    if (left === 0n)
      return `A deposit of ${inUnits(open, token)} into the channel ${record.id} is signed, and can still land.`
    return `The channel ${record.id} to ${checksumAddress(config.receiver.toLowerCase())} has ${inUnits(left, token)} left. To withdraw it without the seller: ${callsOf(config as ChannelConfig, left)}`
  })
}

/** The calls by which the payer withdraws, for a wallet with some ether. */
function callsOf(config: ChannelConfig, amount: bigint): string {
  const { payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt } = config
  const tuple = `(${[payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt].join(',')})`
  const type = '(address,address,address,address,address,uint40,bytes32)'
  const send = `cast send ${checksumAddress(BATCH_SETTLEMENT_ADDRESS)}`
  return `${send} 'initiateWithdraw(${type},uint128)' '${tuple}' ${amount} --rpc-url URL, and after ${withdrawDelay} seconds: ${send} 'finalizeWithdraw(${type})' '${tuple}' --rpc-url URL`
}
