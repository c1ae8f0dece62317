import type { Asset } from '../../core/domain/asset.ts'
import type { PaymentRequired } from '../../core/x402/types.ts'
import { signEvm } from './signEvm.ts'
import { signSolana } from './signSolana.ts'
import { type Shown, type SignOptions, termsShown } from './terms.ts'
import type { Wallet } from './wallet.ts'

/**
 * Has the buyer's wallet sign one payment for an offer (x402 v2). The wallet gives one signature and nothing else.
 *
 * @param offer the body of a 402
 * @param shown the terms that the buyer sees. An offer with other terms is not signed
 * @param assets the tokens that the gateway accepts
 * @returns the value of `PAYMENT-SIGNATURE`
 * @throws {WalletFault} if nothing was signed
 */
export async function signPayment(
  wallet: Wallet,
  offer: PaymentRequired,
  shown: Shown,
  assets: readonly Asset[],
  options: SignOptions,
): Promise<string> {
  const terms = termsShown(offer.accepts, shown, assets)
  const payload =
    wallet.family === 'solana'
      ? await signSolana(wallet, terms, options)
      : await signEvm(wallet, terms, options)
  const payment = { x402Version: 2, payload, resource: offer.resource, accepted: terms.entry }
  return btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(payment))))
}
