import type { Asset } from '../domain/asset.ts'
import { isPaid, payoutFor, type ServedLink } from '../domain/link.ts'
import { convertPrice, parseAmount } from '../domain/money.ts'
import type { NetworkId } from '../domain/network.ts'
import { priceFault } from '../payments/payoutFaults.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { Payee, Settler } from '../ports/chains/settler.ts'
import type { PaymentRequirements } from './types.ts'

/** What is sold, as far as paying goes. */
export type Priced = Pick<ServedLink, 'price' | 'payout'>

/** One way to pay for a link: what stands in the 402, and who settles it. */
export interface Offer {
  readonly terms: PaymentRequirements
  readonly asset: Asset
  readonly settler: Settler
  /** Whether the seller can receive the asset, where that can fail; undefined where it can't. */
  readonly payee: Payee | undefined
  /**
   * Not in the 402: the seller has no wallet there, or the price is below the lowest. Nothing can be bought by it now; who
   * paid by it earlier still gets what it has bought, or hears how it stands.
   */
  readonly isClosed: boolean
}

/**
 * The ways to pay for a link version: one per asset whose network has a settler and on which the seller has a wallet; the
 * closed ones stand behind them. USDC comes first, because clients take the first entry of their chain family.
 */
export function offersOf(link: Priced, chains: Chains, maxTimeoutSeconds: number): readonly Offer[] {
  return waysToPay(link, chains, maxTimeoutSeconds).map((way) => {
    const { settler, terms, isClosed } = way
    return { ...way, payee: isClosed ? undefined : settler.payee?.(terms.asset, terms.payTo) }
  })
}

/** What the 402 of a link offers, for lists of many: nothing for a free link, and no wallet is looked at on its chain. */
export const openTerms = (
  link: Priced,
  chains: Chains,
  maxTimeoutSeconds: number,
): readonly PaymentRequirements[] =>
  isPaid(link)
    ? waysToPay(link, chains, maxTimeoutSeconds).flatMap(({ terms, isClosed }) => (isClosed ? [] : [terms]))
    : []

type WayToPay = Omit<Offer, 'payee'>

function waysToPay(link: Priced, chains: Chains, maxTimeoutSeconds: number): readonly WayToPay[] {
  const priceAtomic = parseAmount(link.price, 6)
  return chains.assets
    .flatMap((asset): WayToPay[] => {
      const settler = chains.settler(asset.network)
      if (settler === undefined) return []
      const wallet = payoutFor(link.payout, asset.network)
      const terms: PaymentRequirements = {
        scheme: settler.scheme,
        network: asset.network,
        amount: convertPrice(priceAtomic, asset.usdPerUnit, asset.decimals).toString(),
        asset: asset.address,
        payTo: wallet ?? nobodyOn(asset.network),
        maxTimeoutSeconds,
        extra: {
          ...(asset.eip712 && { name: asset.eip712.name, version: asset.eip712.version }),
          decimals: asset.decimals,
          ...settler.offerExtra(wallet ?? nobodyOn(asset.network)),
        },
      }
      const isClosed = wallet === null || priceFault(settler, link.price) !== undefined
      return [{ terms, asset, settler, isClosed }]
    })
    .sort((a, b) => rank(a) - rank(b))
}

const rank = ({ asset, isClosed }: WayToPay): number => Number(isClosed) * 2 + Number(asset.symbol !== 'USDC')

/** Stands in terms that nobody is offered: the zero address, the system program. */
const nobodyOn = (network: NetworkId): string =>
  network.startsWith('solana:') ? '1'.repeat(32) : `0x${'0'.repeat(40)}`
