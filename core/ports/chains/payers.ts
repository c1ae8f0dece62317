import type { Asset } from '../../domain/asset.ts'

/** What a wallet in a browser has to be told of its chain before it can sign, because it can't be asked itself. */
export interface PayerState {
  /** Base58; about a minute old at most. */
  readonly recentBlockhash: string
  /** What the wallet has of the asset, in its smallest unit; 0 without an account for it. */
  readonly balanceAtomic: bigint
}

/** Looks at wallets that are about to pay. It has no key and sends nothing. */
export interface Payers {
  /**
   * @param asset of a Solana network @param address base58, a wallet
   * @returns undefined when no node of the network answers, or none is configured. Never rejects
   */
  look(asset: Asset, address: string): Promise<PayerState | undefined>
}
