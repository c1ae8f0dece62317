import type { Asset } from '../../core/domain/asset.ts'
import type { PaymentRequired, PaymentRequirements } from '../../core/x402/types.ts'

export interface FoundWallet {
  readonly id: string
  readonly name: string
  readonly icon: string | undefined
  readonly family: string
}

/** The wallets of this browser: loaded when somebody wants to pay, and not before. */
export interface Payer {
  /** @returns a function that ends the search */
  find(onChange: (wallets: readonly FoundWallet[]) => void): () => void
  /**
   * Has a wallet sign the payment that the page shows.
   * @returns the value of `PAYMENT-SIGNATURE`   @throws an error in words for the buyer; then nothing was paid
   */
  sign(
    walletId: string,
    offer: PaymentRequired,
    shown: PaymentRequirements,
    assets: readonly Asset[],
    onStep: (words: string) => void,
  ): Promise<string>
}

let load: (() => Promise<Payer>) | undefined

/** Says how wallets are loaded; a page's `entry.ts` does, so that nothing the server reads imports them. */
export function providePayer(loadPayer: () => Promise<Payer>): void {
  load = loadPayer
}

/** @returns undefined where the page has none */
export const loadPayer = (): Promise<Payer> | undefined => load?.()
