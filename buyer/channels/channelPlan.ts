import { formatAmount, parseAmount } from '../../core/domain/money.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { own } from '../../core/x402/strictJson.ts'
import { BuyerRefusal } from '../buyer.ts'
import { type ChannelRecord, signedIn } from './channelRecord.ts'
import type { ChannelState } from './channelState.ts'

/** What to sign, or undefined if the channel does not cover the call and may not be filled. @throws {BuyerRefusal} */
export function planOf(
  record: ChannelRecord | undefined,
  { balance, totalClaimed }: ChannelState,
  { amountAtomic, asset, extra }: OfferTerms,
  deposit: string | undefined,
): { totalAtomic: bigint; depositAtomic: bigint | null } | undefined {
  const charged = record === undefined ? totalClaimed : BigInt(record.charged)
  const totalAtomic = charged + amountAtomic
  const open = record === undefined ? null : signedIn(record).deposit
  if (totalAtomic <= balance + (open?.amount ?? 0n)) return { totalAtomic, depositAtomic: null }
  const units = (amount: bigint) => `${formatAmount(amount, asset.decimals, 2)} ${asset.symbol}`
  if (open !== null)
    throw new BuyerRefusal(
      `A deposit of ${units(open.amount)} is signed and can still land, but does not cover this call. Run the command again when it has landed or expired. Nothing was signed.`,
    )
  if (deposit === undefined) return undefined
  const left = balance - charged > 0n ? balance - charged : 0n
  const depositAtomic = atomicOf(deposit, asset.decimals) - left
  const asked = own(extra, 'minDeposit')
  const least = typeof asked === 'string' && /^\d{1,30}$/.test(asked) ? BigInt(asked) : amountAtomic
  if (depositAtomic < amountAtomic - left || depositAtomic < least)
    throw new BuyerRefusal(
      `The seller asks for a deposit of at least ${units(least)}, and the channel has ${units(left)} left, so --deposit ${deposit} is too little. Nothing was signed.`,
    )
  return { totalAtomic, depositAtomic }
}

function atomicOf(deposit: string, decimals: number): bigint {
  try {
    return parseAmount(deposit, decimals)
  } catch (error) {
    if (!isTollgateError(error)) throw error
    throw new BuyerRefusal(`The token has only ${decimals} decimals. ${error.message} Nothing was signed.`)
  }
}
