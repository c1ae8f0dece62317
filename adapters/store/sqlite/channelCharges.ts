import type { ChannelCharge, Channels } from '../../../core/ports/store/channels.ts'
import { callOf, HOUR_MS } from '../repositories/channels.ts'
import type { ChargeArgs } from './channelOperations.ts'
import type { Database } from './connect.ts'

/**
 * Charges calls of channels. Each call of a channel makes this write, so its statements are prepared by hand, and charges of many
 * channels share one flushed commit (bench/channels.ts).
 */
export const createChannelCharges =
  ({ writer, clock }: Pick<Database, 'writer' | 'clock'>): Channels['charge'] =>
  (charge) =>
    writer.write('chargeChannel', argsOf(charge, clock.now()))

function argsOf(charge: ChannelCharge, nowMs: number): ChargeArgs {
  const { before, amountAtomic, signed, signature, response, linkId } = charge
  const id = charge.id.slice(2)
  const charged = String(before + amountAtomic)
  return [
    [
      charged,
      signature === null ? null : signature.slice(2),
      amountAtomic === 0n ? null : nowMs,
      id,
      String(before),
      charge.owner,
      signed === before + amountAtomic ? charged : String(signed),
    ],
    response === null
      ? [id, callOf(charge), String(charge.voucherTotal), nowMs, 0, '[]', '', '', '']
      : [
          id,
          callOf(charge),
          String(charge.voucherTotal),
          nowMs,
          response.status,
          JSON.stringify(response.headers),
          response.mediaType,
          latin1Of(response.body),
          response.receipt,
        ],
    [id, linkId, Math.floor(nowMs / HOUR_MS), String(amountAtomic)],
  ]
}

const latin1Of = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
