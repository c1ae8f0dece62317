import { base58 } from '@scure/base'
import { builtInAssets } from '../domain/asset.ts'
import { readAddress } from '../solana/address.ts'
import { isOnCurve } from '../solana/associatedTokenAddress.ts'
import { associatedTokenProgram, memoProgram, tokenProgramAddress } from '../solana/programs.ts'
import { tokenAccountOf } from '../solana/tokenAccountOf.ts'
import { isPrintable } from './isPrintable.ts'
import type { OfferTerms } from './offerTerms.ts'

/** Longest memo that a verifier must accept (x402, scheme exact on SVM). */
const MAX_MEMO_BYTES = 256

/** Programs and accounts of the chain itself: what is paid to them is lost. */
const reserved = new Set([
  ...Object.values(tokenProgramAddress),
  base58.encode(associatedTokenProgram),
  base58.encode(memoProgram),
  '11111111111111111111111111111111',
  'ComputeBudget111111111111111111111111111111',
  'AddressLookupTab1e1111111111111111111111111',
  'NativeLoader1111111111111111111111111111111',
  'BPFLoaderUpgradeab1e11111111111111111111111',
  'Stake11111111111111111111111111111111111111',
  'Vote111111111111111111111111111111111111111',
  '1nc1nerator11111111111111111111111111111111',
  'So11111111111111111111111111111111111111112',
])

/**
 * Why the terms of a Solana offer must not be signed, in words; undefined when they may. The payee may be off the curve
 * (a program's vault can own tokens), the fee payer may not: it has to sign.
 *
 * @param payer our own address
 */
export function solanaTermsFault(terms: OfferTerms, payer: string): string | undefined {
  const { asset, amountAtomic, payTo, extra } = terms
  if (amountAtomic <= 0n || amountAtomic >= 2n ** 64n) return 'the amount is out of range'
  if (readAddress(payTo) === undefined) return 'payTo is not a base58 address of 32 bytes'
  if (reserved.has(payTo) || payTo.startsWith('Sysvar'))
    return 'payTo is a program or account of the chain itself'
  if (builtInAssets.some((known) => known.address === payTo)) return 'payTo is a token, not a wallet'
  if (payTo === payer) return 'payTo is your own wallet'
  if (payTo === tokenAccountOf(payer, asset)) return 'payTo is your own token account'

  const named = extra['feePayer']
  const feePayer = typeof named === 'string' ? readAddress(named) : undefined
  if (typeof named !== 'string' || feePayer === undefined)
    return 'extra.feePayer is not a base58 address of 32 bytes'
  if (named === payer) return 'extra.feePayer is your own wallet: you would pay the network fee'
  if (!isOnCurve(feePayer)) return 'extra.feePayer is an address that can not sign'
  const isUsed = named === tokenAccountOf(payTo, asset) || named === asset.address
  if (isUsed || reserved.has(named)) return 'extra.feePayer is an account of the payment itself'

  const { memo } = extra
  if (memo === undefined) return undefined
  const isGood = typeof memo === 'string' && isPrintable(memo) && Buffer.byteLength(memo) <= MAX_MEMO_BYTES
  if (!isGood) return `extra.memo is not printable text of at most ${MAX_MEMO_BYTES} bytes`
}
