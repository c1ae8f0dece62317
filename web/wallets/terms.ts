import type { Asset } from '../../core/domain/asset.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { networkTitle } from '../../core/domain/network.ts'
import type { PaymentRequirements } from '../../core/x402/types.ts'
import { WalletFault } from './wallet.ts'

/** Progress of a payment in the wallet. */
type SigningStep = 'connecting' | 'checking' | 'signing'

/** Data about a Solana payer that comes from the chain, because the wallet does not provide it. */
interface PayerState {
  /** Base58. */
  readonly recentBlockhash: string
  readonly balanceAtomic: bigint
}

export interface SignOptions {
  /** The gateway's time in seconds since 1970, because the buyer's clock may be wrong. */
  nowSeconds(): number
  queryPayer(network: string, address: string, asset: string): Promise<PayerState>
  onStep(step: SigningStep): void
  /** Called with the paying account before the account signs. */
  onPayer?(address: string): void
}

/** The terms that a wallet signs, and their token. */
export interface Terms {
  readonly entry: PaymentRequirements
  readonly asset: Asset
  readonly amountAtomic: bigint
}

/** The terms that the page shows beside the button. No other terms are signed. */
export interface Shown {
  readonly network: string
  /** Token contract or mint. */
  readonly asset: string
  /** In the token's smallest unit. */
  readonly amount: string
  readonly payTo: string
}

/**
 * The entry of a 402 that matches what the page shows, with scheme `exact`.
 * @throws {WalletFault} if there is none, because the price or the seller's wallet has changed
 */
export function termsShown(
  accepts: readonly PaymentRequirements[],
  shown: Shown,
  assets: readonly Asset[],
): Terms {
  const { network, asset: address, amount, payTo } = shown
  const asset = assets.find((one) => one.network === network && isSame(one.address, address))
  const entry = accepts.find(
    (one) =>
      one.scheme === 'exact' &&
      one.extra['assetTransferMethod'] !== 'permit2' &&
      one.network === network &&
      isSame(one.asset, address) &&
      one.amount === amount &&
      isSame(one.payTo, payTo),
  )
  if (asset === undefined || entry === undefined)
    throw new WalletFault('failed', 'The price or the seller’s wallet has changed. Reload this page.')
  return { entry, asset, amountAtomic: BigInt(amount) }
}

/** @param has in the token's smallest unit */
export function tooLittle(
  has: bigint,
  { asset, amountAtomic }: Pick<Terms, 'asset' | 'amountAtomic'>,
): WalletFault {
  const [hasText, needs] = [has, amountAtomic].map((amount) => formatAmount(amount, asset.decimals, 2))
  const title = networkTitle(asset.network)
  return new WalletFault(
    'too_little',
    `This wallet has ${hasText} ${asset.symbol} on ${title}, but the price is ${needs} ${asset.symbol}.`,
  )
}

const isSame = (a: string, b: string): boolean =>
  a === b || (a.startsWith('0x') && a.toLowerCase() === b.toLowerCase())
