import type { Asset } from '../../core/domain/asset.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { networkTitle } from '../../core/domain/network.ts'
import type { PaymentRequirements } from '../../core/x402/types.ts'
import { WalletFault } from './wallet.ts'

/** The terms that a wallet is asked to sign, and the token that they are in. */
export interface Terms {
  readonly entry: PaymentRequirements
  readonly asset: Asset
  readonly amountAtomic: bigint
}

/** What the page shows beside the button: nothing else is signed. */
export interface Shown {
  readonly network: string
  /** Token contract or mint. */
  readonly asset: string
  /** In the token's smallest unit. */
  readonly amount: string
  readonly payTo: string
}

/**
 * The entry of a 402 that says what the page shows, by scheme `exact`.
 * @throws {WalletFault} when there is none: the price or the seller's wallet is another by now
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
      one.network === network &&
      isSame(one.asset, address) &&
      one.amount === amount &&
      isSame(one.payTo, payTo),
  )
  if (asset === undefined || entry === undefined)
    throw new WalletFault('failed', 'What is to be paid has changed. Load this page again.')
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
    `This wallet has ${hasText} ${asset.symbol} on ${title}; ${needs} ${asset.symbol} are needed.`,
  )
}

const isSame = (a: string, b: string): boolean =>
  a === b || (a.startsWith('0x') && a.toLowerCase() === b.toLowerCase())
