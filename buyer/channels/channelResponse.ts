import { channelScheme } from '../../core/domain/channel.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import type { ChannelPayment } from '../../core/x402/channelPayment.ts'
import { decodeSellerHeader } from '../../core/x402/header.ts'
import { isObject, own } from '../../core/x402/strictJson.ts'
import { voucherSigner } from '../chains/channelSigners.ts'
import { distinct, type HttpResponse, valuesOf } from '../httpCall.ts'

const digits = /^(?:0|[1-9]\d{0,38})$/

/** The errors of a 402 that says what the channel's total is (x402 packages, scheme `batch-settlement`). */
const corrective = new Set<unknown>([
  'invalid_batch_settlement_evm_cumulative_amount_mismatch',
  'invalid_batch_settlement_evm_cumulative_below_claimed',
])

type Fields = Readonly<Record<string, unknown>>

/** The seller's receipt of a call. Amounts are in atomic units. */
export type ChannelReceipt =
  | {
      readonly kind: 'charged'
      readonly amount: bigint
      readonly total: bigint
      readonly transaction: string | null
    }
  | { readonly kind: 'none' }
  | { readonly kind: 'wrong'; readonly problem: string }

/**
 * Reads the receipt of a call, which must continue the total that the voucher was signed on.
 *
 * @param priceAtomic the most that the voucher allows for this call
 */
export function readChannelReceipt(
  response: HttpResponse,
  { maxClaimable }: ChannelPayment,
  priceAtomic: bigint,
): ChannelReceipt {
  const headers = distinct(valuesOf(response.headers, 'payment-response'))
  if (headers.length === 0) return { kind: 'none' }
  const decoded = headers.length === 1 ? decodeSellerHeader(headers[0]!) : undefined
  if (decoded?.ok !== true) return wrong('is not readable')
  if (own(decoded.value, 'success') !== true) return wrong('does not say that the call was charged')
  const extra = own(decoded.value, 'extra')
  const state = isObject(extra) ? own(extra, 'channelState') : undefined
  const amount = isObject(extra) ? amountIn(extra, 'chargedAmount') : undefined
  const total = isObject(state) ? amountIn(state, 'chargedCumulativeAmount') : undefined
  if (amount === undefined || total === undefined) return wrong('does not name what was charged')
  if (amount > priceAtomic || total !== maxClaimable - priceAtomic + amount)
    return wrong('names another amount than the voucher allows')
  const transaction = own(decoded.value, 'transaction')
  const isTransaction = typeof transaction === 'string' && /^0x[0-9a-fA-F]{64}$/.test(transaction)
  return { kind: 'charged', amount, total, transaction: isTransaction ? transaction : null }
}

const wrong = (problem: string): ChannelReceipt => ({
  kind: 'wrong',
  problem: `the PAYMENT-RESPONSE header ${problem}`,
})

/** What a 402 says was charged. Amounts are in atomic units. */
export interface Correction {
  readonly total: bigint
  /** Total of the payer's own voucher that proves it. */
  readonly signed: bigint
}

/**
 * Reads the total that a 402 says was charged. The seller proves it with the payer's own voucher, so that it cannot claim more than the
 * payer has signed.
 *
 * @returns null if the seller names no voucher, so that only what is claimed on chain counts; undefined if the response corrects
 *   nothing, or without a proof
 */
export async function readCorrection(
  response: HttpResponse,
  { channelId, config }: ChannelPayment,
  network: NetworkId,
): Promise<Correction | null | undefined> {
  const entry = response.status === 402 ? correctiveEntry(response, network) : undefined
  const extra = entry === undefined ? undefined : own(entry, 'extra')
  if (!isObject(extra)) return undefined
  const voucher = own(extra, 'voucherState')
  if (voucher === undefined) return null
  const state = own(extra, 'channelState')
  const total = isObject(state) ? amountIn(state, 'chargedCumulativeAmount') : undefined
  const signed = isObject(voucher) ? amountIn(voucher, 'signedMaxClaimable') : undefined
  const signature = isObject(voucher) ? own(voucher, 'signature') : undefined
  if (total === undefined || signed === undefined || total > signed) return undefined
  const signer = await voucherSigner(network, channelId, signed, signature)
  return signer === config.payerAuthorizer ? { total, signed } : undefined
}

/** The first entry of the scheme in a corrective 402. */
function correctiveEntry(response: HttpResponse, network: NetworkId): Fields | undefined {
  const decoded = decodeSellerHeader(valuesOf(response.headers, 'payment-required')[0] ?? '')
  if (!decoded.ok || !corrective.has(own(decoded.value, 'error'))) return undefined
  const accepts = own(decoded.value, 'accepts')
  const entries: unknown[] = Array.isArray(accepts) ? accepts : []
  const first = entries.find((entry) => isObject(entry) && own(entry, 'scheme') === channelScheme)
  return isObject(first) && own(first, 'network') === network ? first : undefined
}

/** x402's reason for the refusal in a 402. Empty if it names none. */
export function reasonIn(response: HttpResponse): string {
  const decoded = decodeSellerHeader(valuesOf(response.headers, 'payment-required')[0] ?? '')
  const reason = decoded.ok ? own(decoded.value, 'error') : undefined
  return typeof reason === 'string' && /^\w{1,100}$/.test(reason) ? ` (${reason})` : ''
}

function amountIn(fields: Fields, name: string): bigint | undefined {
  const value = own(fields, name)
  return typeof value === 'string' && digits.test(value) ? BigInt(value) : undefined
}
