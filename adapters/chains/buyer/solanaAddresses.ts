import { PublicKey } from '@solana/web3.js'
import type { Asset } from '../../../core/domain/asset.ts'

export const TOKEN_PROGRAM = new PublicKey('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA')
export const TOKEN_2022_PROGRAM = new PublicKey('TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb')
export const ASSOCIATED_TOKEN_PROGRAM = new PublicKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL')
export const MEMO_PROGRAM = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')

/** The program that owns an asset's mint. */
export const programOf = (asset: Asset): PublicKey =>
  asset.program === 'token-2022' ? TOKEN_2022_PROGRAM : TOKEN_PROGRAM

/** The associated token account of an owner. @see https://spl.solana.com/associated-token-account */
export function associatedAccount(owner: PublicKey, asset: Asset): PublicKey {
  const seeds = [owner.toBuffer(), programOf(asset).toBuffer(), new PublicKey(asset.address).toBuffer()]
  return PublicKey.findProgramAddressSync(seeds, ASSOCIATED_TOKEN_PROGRAM)[0]
}
