import type { Asset } from '../domain/asset.ts'
import { isPaid, type Payout, payoutFor, type ServedLink } from '../domain/link.ts'
import { convertPrice, formatAmount, parseAmount } from '../domain/money.ts'
import { type NetworkId, networkTitle } from '../domain/network.ts'
import { isByUse } from '../domain/pricing.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { Payee, Settler } from '../ports/chains/settler.ts'
import type { PaymentRequirements, Scheme } from '../x402/types.ts'

/** The fields of a sold item that determine how it can be paid. */
export interface Priced extends Pick<ServedLink, 'price' | 'payout'>, Partial<Pick<ServedLink, 'pricing'>> {
  /**
   * How the price is charged. With `upto`, `price` is the highest price of a call. If absent, `pricing` decides, and without
   * `pricing` it is `exact`.
   */
  readonly scheme?: Scheme
}

/** The x402 scheme by which the item is paid. */
export const schemeOf = ({ scheme, pricing }: Pick<Priced, 'scheme' | 'pricing'>): Scheme =>
  scheme ?? (pricing != null && isByUse(pricing) ? 'upto' : 'exact')

/** One payment method of a link, which is an entry of the 402 and the settler of its network. */
export interface Offer {
  readonly terms: PaymentRequirements
  readonly asset: Asset
  readonly settler: Settler
  /** Checks whether the seller's wallet can receive the asset. Undefined if every wallet can. */
  readonly payee: Payee | undefined
  /**
   * True if the 402 does not list the offer, because the seller has no wallet on its network or the price is below the minimum. The
   * offer accepts no new purchase. A buyer who has already paid with it still gets the response, or the state of the payment.
   */
  readonly isClosed: boolean
}

/**
 * The payment methods of a link version, one per asset whose network has a settler and a wallet of the seller. The closed ones
 * follow. USDC comes first, because clients choose the first entry of their chain family.
 */
export function offersOf(link: Priced, chains: Chains, maxTimeoutSeconds: number): readonly Offer[] {
  return paymentMethods(link, chains, maxTimeoutSeconds).map((method) => {
    const { settler, terms, isClosed } = method
    return { ...method, payee: isClosed ? undefined : settler.payee?.(terms.asset, terms.payTo) }
  })
}

/**
 * The terms that a link's 402 lists, for long lists of links. Empty for a free link. It does not check on chain whether the wallets
 * can be paid.
 */
export const openTerms = (
  link: Priced,
  chains: Chains,
  maxTimeoutSeconds: number,
): readonly PaymentRequirements[] =>
  isPaid(link)
    ? paymentMethods(link, chains, maxTimeoutSeconds).flatMap(({ terms, isClosed }) =>
        isClosed ? [] : [terms],
      )
    : []

type MethodTerms = Omit<Offer, 'payee'>

function paymentMethods(link: Priced, chains: Chains, maxTimeoutSeconds: number): readonly MethodTerms[] {
  const scheme = schemeOf(link)
  const priceAtomic = parseAmount(link.price, 6)
  return chains.assets
    .flatMap((asset): MethodTerms[] => {
      const settler = chains.settler(asset.network, scheme)
      if (settler === undefined) return []
      const wallet = payoutFor(link.payout, asset.network)
      const terms: PaymentRequirements = {
        scheme,
        network: asset.network,
        amount: convertPrice(priceAtomic, asset.usdPerUnit, asset.decimals).toString(),
        asset: asset.address,
        payTo: wallet ?? placeholderOn(asset.network),
        maxTimeoutSeconds,
        extra: {
          ...(asset.eip712 && { name: asset.eip712.name, version: asset.eip712.version }),
          decimals: asset.decimals,
          ...(asset.transferMethod !== undefined && { assetTransferMethod: asset.transferMethod }),
          ...settler.offerExtra(wallet ?? placeholderOn(asset.network), scheme),
        },
      }
      const isClosed = wallet === null || priceFault(settler, link.price) !== undefined
      return [{ terms, asset, settler, isClosed }]
    })
    .sort((a, b) => rank(a) - rank(b))
}

const rank = ({ asset, isClosed }: MethodTerms): number =>
  Number(isClosed) * 2 + Number(asset.symbol !== 'USDC')

/** The payee of terms that are not offered, which is the zero address or the system program. */
const placeholderOn = (network: NetworkId): string =>
  network.startsWith('solana:') ? '1'.repeat(32) : `0x${'0'.repeat(40)}`

/**
 * Why wallets of a store cannot be paid, as messages for its seller. Empty if all can be paid. A chain that does not respond within
 * half a second is left out.
 */
export async function payoutFaults(chains: Chains, payout: Payout): Promise<string[]> {
  const faults = await Promise.all(
    chains.assets.map(async (asset) => {
      const payTo = payoutFor(payout, asset.network)
      const payee = payTo === null ? undefined : chains.settler(asset.network)?.payee?.(asset.address, payTo)
      await payee?.refresh()
      return payee?.fault ?? []
    }),
  )
  return faults.flat()
}

/** Networks on which a link of this price is not offered, as messages for its seller. Empty if there are none. */
export function priceFaults(chains: Chains, link: Priced): string[] {
  const scheme = schemeOf(link)
  const networks = new Set(
    chains.assets.map(({ network }) => network).filter((network) => payoutFor(link.payout, network) !== null),
  )
  return [...networks].flatMap((network) => {
    const settler = chains.settler(network, scheme)
    if (settler === undefined && scheme !== 'exact' && chains.settler(network) !== undefined)
      return `Prices by use need the x402 scheme ${scheme}, which this gateway does not settle on ${networkTitle(network)}: the link is not offered there.`
    return priceFault(settler, link.price) ?? []
  })
}

/** Why a settler does not settle links of this price. Undefined if it does. */
function priceFault(settler: Settler | undefined, price: string): string | undefined {
  const least = settler?.minPriceAtomic ?? 0n
  if (settler === undefined || parseAmount(price, 6) >= least) return undefined
  return `The price ${price} is below ${formatAmount(least, 6)}, the minimum on ${networkTitle(settler.network)}: the link is not offered there.`
}
