import { base58 } from '@scure/base'
import { builtInAssets } from '../domain/asset.ts'
import { formatAmount } from '../domain/money.ts'
import { associatedTokenProgram, memoProgram, readAddress, tokenProgramAddress } from '../solana/addresses.ts'
import { isOnCurve, tokenAccountOf } from '../solana/tokenAccount.ts'
import type { OfferTerms } from './offerTerms.ts'

/** Maximum memo that every verifier accepts, in bytes (x402, scheme exact on SVM). */
const MAX_MEMO_BYTES = 256

/** Programs and accounts of the chain itself. Money paid to them is lost. */
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
 * Why the terms of a Solana offer must not be signed, as a message. Undefined if they may be signed. The payee may be off the
 * curve, because a program's vault can own tokens. The fee payer may not, because it has to sign.
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
  if (!isOnCurve(feePayer)) return 'extra.feePayer is an address that cannot sign'
  const isUsed = named === tokenAccountOf(payTo, asset) || named === asset.address
  if (isUsed || reserved.has(named)) return 'extra.feePayer is an account of the payment itself'

  const { memo } = extra
  if (memo === undefined) return undefined
  const isGood = typeof memo === 'string' && isPrintable(memo) && Buffer.byteLength(memo) <= MAX_MEMO_BYTES
  if (!isGood) return `extra.memo is not printable text of at most ${MAX_MEMO_BYTES} bytes`
}

/**
 * Whether a text looks the same to every reader. It may contain letters, marks, digits, punctuation, symbols and the plain space,
 * but no control, bidirectional, zero-width, private or unassigned characters. It must not be empty.
 */
const isPrintable = (text: string): boolean => /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]+$/u.test(text)

/** Offsets in a token account and in a mint, by SPL Token's layout, in bytes. */
const OWNER_AT = 32
const AMOUNT_AT = 64
const STATE_AT = 108
const STATE_INITIALIZED = 1
const DECIMALS_AT = 44

/** An account as a node returns it. */
export interface SolanaAccount {
  /** Base58 address of the program that owns the account. */
  readonly owner: string
  readonly isExecutable: boolean
  readonly data: Uint8Array
}

/** The accounts that determine whether a payment can land. Undefined if an account does not exist. */
interface PaymentAccounts {
  readonly mint: SolanaAccount | undefined
  readonly source: SolanaAccount | undefined
  readonly destination: SolanaAccount | undefined
  /** The account of `payTo` itself. */
  readonly wallet: SolanaAccount | undefined
}

/**
 * The addresses of mint, our token account, the payee's token account, and the payee. Call it only with checked terms and a checked
 * payer.
 */
export function paymentAccounts({ asset, payTo }: OfferTerms, payer: string): string[] {
  return [asset.address, tokenAccountOf(payer, asset), tokenAccountOf(payTo, asset), payTo]
}

/**
 * Why a transfer cannot succeed, or would go elsewhere than the offer says, as a message. Undefined if it can succeed. The mint
 * must be the known token, our account must have enough, and the payee must be a wallet with an account for the token. The buyer
 * never creates the payee's account, because the payee could take its rent.
 */
export function solanaAccountsFault(
  { mint, source, destination, wallet }: PaymentAccounts,
  { asset, amountAtomic, payTo }: OfferTerms,
  payer: string,
): string | undefined {
  const program = tokenProgramAddress[asset.program ?? 'token']
  if (mint?.owner !== program || mint.data[DECIMALS_AT] !== asset.decimals)
    return `The mint ${asset.address} is not that of the known ${asset.symbol}`
  const isOurs = isTokenAccount(source, program, asset.address, payer)
  const has = isOurs ? Buffer.from(source.data).readBigUInt64LE(AMOUNT_AT) : 0n
  if (has < amountAtomic) {
    const [hasText, needs] = [has, amountAtomic].map((amount) => formatAmount(amount, asset.decimals, 2))
    return `${payer} has ${hasText} ${asset.symbol}, the price is ${needs}`
  }
  const isToken = Object.values(tokenProgramAddress).some((address) => wallet?.owner === address)
  if (isToken || wallet?.isExecutable === true) return 'payTo is a token account or a program, not a wallet'
  if (!isTokenAccount(destination, program, asset.address, payTo))
    return `payTo has no account for ${asset.symbol} that can receive`
}

function isTokenAccount(
  account: SolanaAccount | undefined,
  program: string,
  mint: string,
  owner: string,
): account is SolanaAccount {
  return (
    account?.owner === program &&
    account.data.length > STATE_AT &&
    base58.encode(account.data.slice(0, OWNER_AT)) === mint &&
    base58.encode(account.data.slice(OWNER_AT, AMOUNT_AT)) === owner &&
    account.data[STATE_AT] === STATE_INITIALIZED
  )
}
