import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import type { PaymentRequired, PaymentRequirements } from '@x402/core/types'
import { addressOfKey, secp256k1 } from '../../adapters/chains/evm/settle/transaction.ts'
import { type ChannelConfig, channelScheme } from '../../core/domain/channel.ts'
import { ChannelHashes } from '../../core/domain/channelHashes.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import { domain } from '../servers/offer.ts'

const hashes = new ChannelHashes(domain.chainId)

/** A payer of one channel, who signs vouchers as fast as a native library does. */
export class ChannelPayer {
  readonly key: Buffer = randomBytes(32)
  readonly address: string = addressOfKey(this.key)
  #total = 0n

  /** The payment of the next call: the header's value. @param offer the 402 that the link sends to every caller */
  sign({ resource, accepts }: PaymentRequired): string {
    const accepted = accepts.find(({ scheme }) => scheme === channelScheme)!
    const channelConfig = this.#configOf(accepted)
    const channelId = hashes.channelId(lowerCased(channelConfig))
    this.#total += BigInt(accepted.amount)
    const { signature, recovery } = secp256k1.sign(hashes.voucherDigest(channelId, this.#total), this.key)
    const voucher = {
      channelId,
      maxClaimableAmount: String(this.#total),
      signature: `0x${Buffer.from(signature).toString('hex')}${(27 + recovery).toString(16)}`,
    }
    const payload = { type: 'voucher', channelConfig, voucher }
    return encodeHeader({ x402Version: 2, payload, resource, accepted })
  }

  /** Counts a call that was paid without {@link sign}. */
  paid(amountAtomic: bigint): void {
    this.#total += amountAtomic
  }

  /** As the official client makes it. */
  #configOf({ payTo, asset, extra }: PaymentRequirements): ChannelConfig {
    return {
      payer: this.address,
      payerAuthorizer: this.address,
      receiver: payTo,
      receiverAuthorizer: extra['receiverAuthorizer'] as string,
      token: asset,
      withdrawDelay: extra['withdrawDelay'] as number,
      salt: `0x${'0'.repeat(64)}`,
    }
  }
}

const lowerCased = (config: ChannelConfig): ChannelConfig => ({
  ...config,
  receiver: config.receiver.toLowerCase(),
  receiverAuthorizer: config.receiverAuthorizer.toLowerCase(),
  token: config.token.toLowerCase(),
})

/** Writes a file with the payments of so many calls. The payers take turns, as the connections of the load do. */
export function writeVouchers(
  file: string,
  payers: readonly ChannelPayer[],
  offer: PaymentRequired,
  calls: number,
): void {
  const lines = Array.from({ length: calls }, (_, n) => payers[n % payers.length]!.sign(offer))
  writeFileSync(file, `${lines.join('\n')}\n`)
}

/** The 402 of a link. */
export async function offerOf(url: string): Promise<PaymentRequired> {
  const response = await fetch(url)
  await response.body?.cancel()
  return JSON.parse(Buffer.from(response.headers.get('payment-required')!, 'base64').toString())
}
