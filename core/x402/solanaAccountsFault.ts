import { base58 } from '@scure/base'
import { formatAmount } from '../domain/money.ts'
import { tokenProgramAddress } from '../solana/programs.ts'
import { tokenAccountOf } from '../solana/tokenAccountOf.ts'
import type { OfferTerms } from './offerTerms.ts'

/** SPL Token layout: offsets in a token account and in a mint. */
const OWNER_AT = 32
const AMOUNT_AT = 64
const STATE_AT = 108
const STATE_INITIALIZED = 1
const DECIMALS_AT = 44

/** An account as a node tells of it. */
export interface SolanaAccount {
  /** Base58 of the program that owns it. */
  readonly owner: string
  readonly isExecutable: boolean
  readonly data: Uint8Array
}

/** The accounts that decide whether a payment can land; undefined where there is none. */
export interface PaymentAccounts {
  readonly mint: SolanaAccount | undefined
  readonly source: SolanaAccount | undefined
  readonly destination: SolanaAccount | undefined
  /** The account of `payTo` itself. */
  readonly wallet: SolanaAccount | undefined
}

/** Their addresses: mint, our token account, the payee's token account, the payee. Terms and payer were checked. */
export function paymentAccounts({ asset, payTo }: OfferTerms, payer: string): string[] {
  return [asset.address, tokenAccountOf(payer, asset), tokenAccountOf(payTo, asset), payTo]
}

/**
 * Why a transfer can not succeed or goes elsewhere than the offer says, in words; undefined when it can: the mint is the
 * token that is known, our account holds enough, the payee is a wallet that has an account for the token. The payee's
 * account is never made by us: its rent would be somebody's to take.
 */
export function solanaAccountsFault(
  { mint, source, destination, wallet }: PaymentAccounts,
  { asset, amountAtomic, payTo }: OfferTerms,
  payer: string,
): string | undefined {
  const program = tokenProgramAddress[asset.program ?? 'token']
  if (mint?.owner !== program || mint.data[DECIMALS_AT] !== asset.decimals)
    return `The mint ${asset.address} is not the ${asset.symbol} that is known`
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
