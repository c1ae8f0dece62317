import type { Asset } from '../../core/domain/asset.ts'
import type { PaymentRequired, PaymentRequirements } from '../../core/x402/types.ts'

export interface FoundWallet {
  readonly id: string
  readonly name: string
  readonly icon: string | undefined
  readonly family: string
}

/** Access to the wallets in this browser. It is loaded only when a buyer wants to pay. */
export interface Payer {
  /** @returns a function that ends the search */
  find(onChange: (wallets: readonly FoundWallet[]) => void): () => void
  /**
   * Has a wallet sign the payment that the page shows.
   * @returns the value of `PAYMENT-SIGNATURE`
   * @throws an error in words for the buyer. Nothing was paid then
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

/** Sets the function that loads the wallets. A page's `entry.ts` calls this, so that no module on the server imports them. */
export function providePayer(loadPayer: () => Promise<Payer>): void {
  load = loadPayer
}

/** @returns undefined if the page has no wallets */
export const loadPayer = (): Promise<Payer> | undefined => load?.()
