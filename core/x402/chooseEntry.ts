import { isSameAddress } from '../domain/address.ts'
import { type Asset, builtInAssets } from '../domain/asset.ts'
import { type ChainFamily, familyOf, type NetworkId, networkTitle } from '../domain/network.ts'
import type { OfferTerms } from './offerTerms.ts'
import { isObject, own } from './strictJson.ts'
import { worthInUsd } from './worthInUsd.ts'

/** Shortest time to settle that a seller may name, in seconds. However long it is, what is signed is at most an hour. */
const MIN_TIMEOUT_SECONDS = 10

/**
 * How a payment by scheme `exact` may move, in `extra`: what is signed is the same in both flows, and settled after the
 * seller's work or before it. Everything else there (an escrow, Permit2) moves money in another way.
 */
const knownFlows = new Set<unknown>([undefined, null, 'authorization', 'upfront'])
const knownMethods: Readonly<Record<ChainFamily, ReadonlySet<unknown>>> = {
  eip155: new Set<unknown>([undefined, null, 'eip3009']),
  solana: new Set<unknown>([undefined, null, 'default']),
}

/** Whoever would sign: a wallet of the command line, or the vault's account on a chain. */
export interface Payer {
  /** The networks that it signs on; absent for every one of its family. */
  readonly networks?: ReadonlySet<string>
  /** Why these terms must not be signed, in words for the user; undefined when they may. Asks nobody. */
  objectTo(terms: OfferTerms): string | undefined
}

export interface ChosenEntry<P extends Payer> {
  /** The entry as received: goes back in `accepted`. */
  readonly entry: Readonly<Record<string, unknown>>
  readonly terms: OfferTerms
  readonly buyer: P
}

export type Choice<P extends Payer> =
  | {
      readonly ok: true
      readonly chosen: ChosenEntry<P>
      /** Further entries that fit, in the seller's order: for when it turns out that the chosen one can't be paid. */
      readonly others: readonly ChosenEntry<P>[]
    }
  | { readonly ok: false; readonly message: string }

export interface EntryWishes {
  /** Only this network. */
  readonly only?: NetworkId | undefined
  /** Whether a price is within what may be paid without asking. Default: every price is. */
  readonly fits?: (terms: OfferTerms) => boolean
  /** The tokens that may be paid in. Default: those that Tollgate knows. */
  readonly assets?: readonly Asset[]
  /** What to say where there is no wallet of a family, and what to do about it. */
  readonly missing?: Readonly<Record<ChainFamily, string>> | undefined
}

/**
 * Takes the first entry that is for us and fits: scheme `exact`, a network that we know and have a wallet for, a token
 * that we know, paid by a transfer whose terms are all understood, at a price within the limit. Every other entry is passed
 * over; when all that are for us are too expensive, the cheapest is taken, and it is for the caller to ask or to refuse.
 *
 * When terms that were understood must not be signed, and none was found before them, the whole offer is refused: a seller
 * that tries a trick is not asked for a better entry.
 */
export function chooseEntry<P extends Payer>(
  accepts: readonly Readonly<Record<string, unknown>>[],
  wallets: Readonly<Partial<Record<ChainFamily, P>>>,
  { only, fits = () => true, assets = builtInAssets, missing }: EntryWishes = {},
): Choice<P> {
  const passedOver: string[] = []
  const fitting: ChosenEntry<P>[] = []
  let cheapest: ChosenEntry<P> | undefined
  for (const [i, entry] of accepts.entries()) {
    const candidate = candidateOf(entry, wallets, only, assets, missing)
    if (typeof candidate === 'string') {
      passedOver.push(`${i + 1}: ${candidate}`)
      continue
    }
    const { asset, buyer } = candidate
    const terms = readTerms(entry, asset)
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

/** The asset and wallet of an entry that is for us; otherwise why it is not. */
function candidateOf<P extends Payer>(
  entry: Readonly<Record<string, unknown>>,
  wallets: Readonly<Partial<Record<ChainFamily, P>>>,
  only: NetworkId | undefined,
  assets: readonly Asset[],
  missing: EntryWishes['missing'],
): { asset: Asset; buyer: P } | string {
  if (own(entry, 'scheme') !== 'exact') return 'another scheme than exact'
  const network = own(entry, 'network')
  const family = typeof network === 'string' ? familyOf(network) : undefined
  if (family === undefined) return 'a network that is not known'
  if (only !== undefined && network !== only) return 'another network than --network'
  const ofNetwork = assets.filter((asset) => asset.network === network)
  if (ofNetwork.length === 0) return 'a network that is not known'
  const buyer = wallets[family]
  if (buyer === undefined)
    return missing?.[family] ?? `no ${family === 'solana' ? 'Solana' : 'EVM'} account to pay from`
  if (buyer.networks?.has(network as string) === false)
    return `no wallet for ${networkTitle(network as string)}`
  const asset = ofNetwork.find((a) => isSameAddress(family, own(entry, 'asset'), a.address))
  if (asset === undefined) return 'a token that is not known'
  const extra = own(entry, 'extra')
  if (isObject(extra)) {
    if (!knownMethods[family].has(own(extra, 'assetTransferMethod')))
      return 'a transfer that needs an allowance'
    if (!knownFlows.has(own(extra, 'paymentFlow'))) return 'a payment flow that is not known'
  }
  return { asset, buyer }
}

/** The terms of an entry, or what is wrong with them. */
function readTerms(entry: Readonly<Record<string, unknown>>, asset: Asset): OfferTerms | string {
  const amount = own(entry, 'amount')
  if (typeof amount !== 'string' || !/^[1-9]\d{0,77}$/.test(amount)) {
    return 'amount is not a whole number above zero in its plain form'
  }
  const payTo = own(entry, 'payTo')
  if (typeof payTo !== 'string') return 'payTo is missing'
  const seconds = own(entry, 'maxTimeoutSeconds')
  if (!Number.isInteger(seconds) || (seconds as number) < MIN_TIMEOUT_SECONDS)
    return `maxTimeoutSeconds is not a whole number of ${MIN_TIMEOUT_SECONDS} or more`
  const extra = own(entry, 'extra')
  if (!isObject(extra)) return 'extra is missing'
  const decimals = own(extra, 'decimals')
  if (decimals !== undefined && decimals !== asset.decimals) {
    return `extra.decimals is not ${asset.decimals}, what ${asset.symbol} has`
  }
  // An own copy without a prototype: what is read from it later is what the seller wrote.
  const ownExtra: Record<string, unknown> = Object.assign(Object.create(null), extra)
  return { asset, amountAtomic: BigInt(amount), payTo, maxTimeoutSeconds: seconds as number, extra: ownExtra }
}

const refused = (message: string) => ({ ok: false, message }) as const
