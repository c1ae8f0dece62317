import type { ChannelConfig } from '../../core/domain/channel.ts'
import { BATCH_SETTLEMENT_ADDRESS } from '../../core/domain/channelHashes.ts'
import { checksumAddress } from '../../core/evm/hex.ts'
import { startDeadline } from '../httpCall.ts'
import { DEFAULT_TIMEOUT_MS, type PayOptions } from '../payOptions.ts'
import { type ChannelRecord, signedIn } from './channelRecord.ts'
import { ChannelReader } from './channelState.ts'
import { inUnits } from './concludeCall.ts'

/** A channel whose newest call was at an origin, with what is left in it by the chain, in atomic units. */
export interface UnspentChannel {
  readonly record: ChannelRecord
  readonly left: bigint
}

type Reading = Pick<PayOptions, 'payments' | 'rpcUrl' | 'network'>

/** The recorded channels of an origin that have money left. A channel that the chain does not show is left out. */
export async function unspentAt(
  { origin }: URL,
  { payments, rpcUrl, network }: Reading,
  signal: AbortSignal,
): Promise<UnspentChannel[]> {
  const all = await payments.listChannels()
  const ours = all.filter(
    (one) => URL.parse(one.url)?.origin === origin && (network === undefined || one.network === network),
  )
  const unspent = ours.map(async (record) => {
    try {
      const { balance } = await new ChannelReader(record.network, rpcUrl, signal).state(record.id)
      return { record, left: balance - BigInt(record.charged) }
    } catch {
      return { record, left: 0n }
    }
  })
  return (await Promise.all(unspent)).filter(({ left }) => left > 0n)
}

/** A sentence for each channel of the origin that has money left, with the payer's own calls, which need no seller. */
export async function withdrawalsAt(
  url: URL,
  options: Reading & Pick<PayOptions, 'signal' | 'timeoutMs'>,
): Promise<string[]> {
  const { all } = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  return (await unspentAt(url, options, all)).map(({ record, left }) => {
    const { config } = signedIn(record)
    const token = { network: record.network, asset: checksumAddress(config.token.toLowerCase()) }
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
