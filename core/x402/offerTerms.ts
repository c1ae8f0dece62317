import { canonicalAddress, isSameAddress } from '../domain/address.ts'
import { type Asset, builtInAssets } from '../domain/asset.ts'
import { channelScheme } from '../domain/channel.ts'
import { type AtomicAmount, parseAmount } from '../domain/money.ts'
import { type ChainFamily, familyOf, type NetworkId, networkTitle } from '../domain/network.ts'
import { isObject, own } from './strictJson.ts'
import type { BuyerScheme } from './types.ts'

/** The terms of one offer, all of which the reader understands. Texts are as the seller wrote them. */
export interface OfferTerms {
  readonly scheme: BuyerScheme
  readonly asset: Asset
  /** The price, or in scheme `upto` the most that can be charged. */
  readonly amountAtomic: AtomicAmount
  readonly payTo: string
  readonly maxTimeoutSeconds: number
  readonly extra: Readonly<Record<string, unknown>>
  /** Set if the payment is a permit of Permit2, which it always is in scheme `upto`. */
  readonly permit2?: Permit2Terms | undefined
}

/** A payment by Permit2 (EVM only). It succeeds only if the payer has allowed Permit2 to move the token. */
interface Permit2Terms {
  /** The only account that can charge a payment by `upto`, as a checksummed address. Null for `exact`, which any account can settle. */
  readonly facilitator: string | null
}

/** Decimals of USD amounts. They suffice for the rate of every asset without rounding. */
export const USD_DECIMALS = 18

/** The value of a payment in 10^-18 USD at the asset's fixed rate, rounded up. Computed with integers only. */
export function worthInUsd({ asset, amountAtomic }: Pick<OfferTerms, 'asset' | 'amountAtomic'>): bigint {
  const unit = 10n ** BigInt(asset.decimals)
  return (amountAtomic * parseAmount(asset.usdPerUnit, USD_DECIMALS) + unit - 1n) / unit
}

/**
 * Minimum settlement time that a seller may name, in seconds. There is no maximum, because a signature is valid for at most an hour
 * anyway.
 */
const MIN_TIMEOUT_SECONDS = 10

/**
 * The supported flows in `extra`. Their signatures are the same, and they are settled after or before the seller's work. Any other
 * flow, such as an escrow, moves money in another way.
 */
const knownFlows = new Set<unknown>([undefined, null, 'authorization', 'upfront'])
/** The supported transfer methods in `extra`, by scheme. A scheme without methods is not supported on the chain family. */
const knownMethods: Readonly<Record<ChainFamily, Partial<Record<BuyerScheme, ReadonlySet<unknown>>>>> = {
  eip155: {
    exact: new Set<unknown>([undefined, null, 'eip3009', 'permit2']),
    upto: new Set<unknown>([undefined, null, 'permit2']),
    [channelScheme]: new Set<unknown>([undefined, null, 'eip3009', 'permit2']),
  },
  solana: { exact: new Set<unknown>([undefined, null, 'default']) },
}

/** The signer, which is a wallet of the command line, or the vault's account on a chain. */
export interface Payer {
  /** The networks on which the payer signs. If absent, all networks of its family. */
  readonly networks?: ReadonlySet<string>
  /** Why these terms must not be signed, as a message for the user. Undefined if they may be signed. Sends no request. */
  objectTo(terms: OfferTerms): string | undefined
}

export interface ChosenEntry<P extends Payer> {
  /** The entry as received. The payer sends it back in `accepted`. */
  readonly entry: Readonly<Record<string, unknown>>
  readonly terms: OfferTerms
  readonly buyer: P
}

export type Choice<P extends Payer> =
  | {
      readonly ok: true
      readonly chosen: ChosenEntry<P>
      /** Further entries that can be paid, in the seller's order, in case the chosen entry fails. */
      readonly others: readonly ChosenEntry<P>[]
    }
  | { readonly ok: false; readonly message: string }

export interface EntryWishes {
  /** Restricts the choice to this network. */
  readonly only?: NetworkId | undefined
  /** Whether the price may be paid without approval. If absent, every price may. */
  readonly fits?: (terms: OfferTerms) => boolean
  /** The tokens that may be used. If absent, the built-in ones. */
  readonly assets?: readonly Asset[]
  /** True to choose only among payment channels. If absent, none is chosen. */
  readonly byChannel?: boolean
  /** The message if there is no wallet of a family. It says what to do. */
  readonly missing?: Readonly<Record<ChainFamily, string>> | undefined
}

/**
 * Chooses the first entry that this payer can pay and that `fits`. The entry must have the scheme `exact` or `upto`, a known network with
 * a wallet, a known token, a transfer whose terms are all understood, and a price within the limit. Every other entry is skipped. If
 * all payable entries are too expensive, the cheapest is chosen, and the caller requests approval or refuses.
 *
 * If the terms of an entry are understood but must not be signed, and no earlier entry fits, the whole offer is refused. A seller
 * that attempts a trick gets no second chance with a later entry.
 */
export function chooseEntry<P extends Payer>(
  accepts: readonly Readonly<Record<string, unknown>>[],
  wallets: Readonly<Partial<Record<ChainFamily, P>>>,
  wishes: EntryWishes = {},
): Choice<P> {
  const { fits = () => true } = wishes
  const passedOver: string[] = []
  const fitting: ChosenEntry<P>[] = []
  let cheapest: ChosenEntry<P> | undefined
  for (const [i, entry] of accepts.entries()) {
    const candidate = candidateOf(entry, wallets, wishes)
    if (typeof candidate === 'string') {
      passedOver.push(`${i + 1}: ${candidate}`)
      continue
    }
    const { scheme, asset, buyer } = candidate
    const terms = readTerms(entry, scheme, asset)
    if (typeof terms === 'string') {
      passedOver.push(`${i + 1}: ${terms}`)
      continue
    }
    const problem = buyer.objectTo(terms)
    if (problem !== undefined) {
      if (fitting.length > 0) break
      return refused(`entry ${i + 1} is not acceptable: ${problem}`)
    }
    const found = { entry, terms, buyer }
    if (fits(terms)) fitting.push(found)
    else if (cheapest === undefined || worthInUsd(terms) < worthInUsd(cheapest.terms)) cheapest = found
  }
  const [chosen = cheapest, ...others] = fitting
  if (chosen !== undefined) return { ok: true, chosen, others }
  return refused(`no entry can be paid (${passedOver.slice(0, 6).join('; ')})`)
}

/** The asset and wallet of an entry that this payer can pay, or the reason why the payer cannot pay it. */
function candidateOf<P extends Payer>(
  entry: Readonly<Record<string, unknown>>,
  wallets: Readonly<Partial<Record<ChainFamily, P>>>,
  { only, assets = builtInAssets, missing, byChannel = false }: EntryWishes,
): { scheme: BuyerScheme; asset: Asset; buyer: P } | string {
  const scheme = own(entry, 'scheme')
  if (scheme !== 'exact' && scheme !== 'upto' && scheme !== channelScheme)
    return 'the scheme is not exact or upto'
  if ((scheme === channelScheme) !== byChannel)
    return byChannel ? 'the entry is no payment channel' : 'the scheme is not exact or upto'
  const network = own(entry, 'network')
  const family = typeof network === 'string' ? familyOf(network) : undefined
  if (family === undefined) return 'the network is not known'
  if (only !== undefined && network !== only) return 'the network is not the one of --network'
  const methods = knownMethods[family][scheme]
  if (methods === undefined) return `the scheme ${scheme} is not known on ${networkTitle(network as string)}`
  const ofNetwork = assets.filter((asset) => asset.network === network)
  if (ofNetwork.length === 0) return 'the network is not known'
  const buyer = wallets[family]
  if (buyer === undefined)
    return missing?.[family] ?? `no ${family === 'solana' ? 'Solana' : 'EVM'} account to pay from`
  if (buyer.networks?.has(network as string) === false)
    return `no wallet for ${networkTitle(network as string)}`
  const asset = ofNetwork.find((a) => isSameAddress(family, own(entry, 'asset'), a.address))
  if (asset === undefined) return 'the token is not known'
  const extra = own(entry, 'extra')
  if (isObject(extra)) {
    if (!methods.has(own(extra, 'assetTransferMethod'))) return 'the transfer method is not known'
    if (!knownFlows.has(own(extra, 'paymentFlow'))) return 'the payment flow is not known'
  }
  return { scheme, asset, buyer }
}

/** The terms of an entry, or the problem with them. */
function readTerms(
  entry: Readonly<Record<string, unknown>>,
  scheme: BuyerScheme,
  asset: Asset,
): OfferTerms | string {
  const amount = own(entry, 'amount')
  if (typeof amount !== 'string' || !/^[1-9]\d{0,77}$/.test(amount)) {
    return 'amount is not a positive integer in plain decimal form'
  }
  const payTo = own(entry, 'payTo')
  if (typeof payTo !== 'string') return 'payTo is missing'
  const seconds = own(entry, 'maxTimeoutSeconds')
  if (!Number.isInteger(seconds) || (seconds as number) < MIN_TIMEOUT_SECONDS)
    return `maxTimeoutSeconds is not an integer of at least ${MIN_TIMEOUT_SECONDS}`
  const extra = own(entry, 'extra')
  if (!isObject(extra)) return 'extra is missing'
  const decimals = own(extra, 'decimals')
  if (decimals !== undefined && decimals !== asset.decimals) {
    return `extra.decimals is not ${asset.decimals}, as ${asset.symbol} has`
  }
  const facilitator = scheme === 'upto' ? canonicalAddress('eip155', own(extra, 'facilitatorAddress')) : null
  if (facilitator === undefined)
    return 'extra.facilitatorAddress is not a 0x address of 20 bytes with a valid checksum'
  const isByPermit2 = scheme === 'upto' || own(extra, 'assetTransferMethod') === 'permit2'
  // A copy without a prototype, so that later reads see only the seller's own fields.
  const ownExtra: Record<string, unknown> = Object.assign(Object.create(null), extra)
  return {
    scheme,
    asset,
    amountAtomic: BigInt(amount),
    payTo,
    maxTimeoutSeconds: seconds as number,
    extra: ownExtra,
    permit2: isByPermit2 ? { facilitator } : undefined,
  }
}

const refused = (message: string) => ({ ok: false, message }) as const
