import type { ChannelConfig, ChannelId } from '../../core/domain/channel.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import { type ChannelPayment, readChannelPayment } from '../../core/x402/channelPayment.ts'
import { channelPayload } from '../../core/x402/channelTerms.ts'
import { isObject } from '../../core/x402/strictJson.ts'
import { UsageError } from '../buyer.ts'

/**
 * What a buyer knows of a channel. It is on disk before anything is sent. It contains no key, and everything that the payer needs to
 * withdraw.
 */
export interface ChannelRecord {
  readonly tollgateChannel: 1
  readonly id: ChannelId
  readonly network: NetworkId
  /** URL of the newest paid call. A GET of it can refund the channel. */
  readonly url: string
  /** Total of all calls whose charge is known, in atomic units as decimal digits. */
  readonly charged: string
  /**
   * The newest signed payload. Its `deposit` is sent again until the deposit is on chain or can no longer be, so that no second deposit
   * is signed meanwhile.
   */
  readonly payload: Readonly<Record<string, unknown>>
}

/** Reads a stored record. @throws {UsageError} if it is damaged */
export function readRecord(value: unknown, path: string): ChannelRecord {
  const record = value as ChannelRecord
  const isRecord =
    isObject(value) &&
    value['tollgateChannel'] === 1 &&
    typeof value['network'] === 'string' &&
    typeof value['url'] === 'string' &&
    /^\d{1,39}$/.test(String(value['charged'])) &&
    isObject(value['payload'])
  const read = isRecord ? readChannelPayment(record.payload) : undefined
  if (read?.ok === true && read.payment.channelId === record.id) return record
  throw new UsageError(
    `The file ${path} is not a record of a payment channel, or it is damaged. Move it away: the deposit and the charged total are then read from the chain.`,
  )
}

/** The signed payload of a record. */
export function signedIn({ payload }: Pick<ChannelRecord, 'payload'>): ChannelPayment {
  const read = readChannelPayment(payload)
  if (!read.ok) throw new TypeError('Expected a payload that was checked when it was stored.')
  return read.payment
}

/** The record after the deposit has landed or has expired. */
export function withoutDeposit(record: ChannelRecord): ChannelRecord {
  const { config, ...voucher } = signedIn(record)
  return { ...record, payload: channelPayload('voucher', config as ChannelConfig, voucher) }
}
