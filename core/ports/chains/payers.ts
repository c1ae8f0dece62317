import type { Asset } from '../../domain/asset.ts'

/** The facts of a chain that a wallet in a browser needs before it can sign, because the wallet cannot query the chain itself. */
export interface PayerState {
  /** Recent block hash in base58, at most about a minute old. */
  readonly recentBlockhash: string
  /** The wallet's balance of the asset, in the asset's smallest unit. 0 if the wallet has no account for the asset. */
  readonly balanceAtomic: bigint
}

/** Reads the chain for wallets that are about to pay. This port has no key and sends nothing. */
export interface Payers {
  /**
   * @param asset an asset on a Solana network
   * @param address base58 address of a wallet
   * @returns undefined if no node of the network responds, or none is configured. Never rejects
   */
  read(asset: Asset, address: string): Promise<PayerState | undefined>
}
