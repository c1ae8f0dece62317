import type { Asset } from '../../core/domain/asset.ts'
import type { Channel } from '../../core/domain/channel.ts'
import type { ChannelCharge } from '../../core/ports/store/channels.ts'

export const network = 'eip155:84532'
/** Bytes in hex. */
export const hex = (byte: string, bytes: number): string => `0x${byte.repeat(bytes)}`
export const token = hex('5a', 20)

export const asset: Asset = {
  network,
  address: hex('5A', 20),
  symbol: 'USDC',
  decimals: 6,
  feeBps: 500,
  usdPerUnit: '1',
}

/** A channel of the store `store-1` that nothing was charged. Its id and payer repeat the byte. */
export const channelOf = (byte: string, more: Partial<Channel> = {}): Channel => ({
  id: hex(byte, 32),
  network,
  storeId: 'store-1',
  config: {
    payer: hex(byte, 20),
    payerAuthorizer: hex('22', 20),
    receiver: hex('33', 20),
    receiverAuthorizer: hex('44', 20),
    token,
    withdrawDelay: 3_600,
    salt: hex('66', 32),
  },
  charged: 0n,
  signed: more.charged ?? 0n,
  signature: null,
  published: null,
  balance: 1_000_000n,
  totalClaimed: 0n,
  pendingWithdrawal: 0n,
  withdrawRequestedAtSeconds: 0,
  refundNonce: 0n,
  ...more,
})

/** A call of the channel with this byte. */
export const chargeOf = (byte: string, before: bigint, more: Partial<ChannelCharge> = {}): ChannelCharge => ({
  id: hex(byte, 32),
  owner: 1,
  network,
  asset: asset.address,
  storeId: 'store-1',
  linkId: 'link-1',
  amountAtomic: 10_000n,
  before,
  signed: before + (more.amountAtomic ?? 10_000n),
  voucherTotal: before + (more.amountAtomic ?? 10_000n),
  signature: hex('77', 65),
  requestHash: 'request',
  identifier: null,
  response: null,
  ...more,
})
