import type { Asset } from '../../core/domain/asset.ts'
import { formatAmount } from '../../core/domain/money.ts'
import type { ChainFamily, NetworkId } from '../../core/domain/network.ts'
import { type ChosenEntry, chooseEntry, type EntryWishes } from '../../core/x402/chooseEntry.ts'
import { decodeSellerHeader, encodeHeader } from '../../core/x402/header.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { type Offer, readEnvelope } from '../../core/x402/readEnvelope.ts'
import { isObject } from '../../core/x402/strictJson.ts'
import { type AssetTable, pinnedAssets } from './assets.ts'
import type { ChainPlugin } from './chainPlugin.ts'
import type { ChainFacts } from './chains.ts'
import { claimedAmount } from './claimedAmount.ts'
import type { Decoded } from './decoded.ts'
import { nameRecipients } from './goesTo.ts'
import { PaymentProblem, type PaymentRpc } from './payment.ts'
import { hostOf } from './plainWords.ts'
import { proveClaim } from './proveClaim.ts'

/** Longest payment header: servers refuse a head above 16 KiB. A payload adds at most this much to it. */
const MAX_HEADER_CHARS = 15_000
const PAYLOAD_CHARS = 2_400

export interface BuildPaymentRequest {
  /** The offer of a 402 (x402 v2): its JSON as an object, or the value of the header `PAYMENT-REQUIRED`. */
  readonly paymentRequired: unknown
  /** The most that may be paid, in whole units of the token: a number or a string of decimal digits. */
  readonly maxAmount: unknown
  /** Only this CAIP-2 network; else the first entry that can be paid within `maxAmount`. */
  readonly network?: NetworkId
  /** The networks that the agent may pay on: an entry on another is passed over for one on these. */
  readonly networks?: ReadonlySet<string>
  /** The address that the agent asked, when it says so: the offer must be for its origin. */
  readonly url?: URL
  /** Our address on a chain; a chain without one is passed over. */
  readonly accountOn: (chain: ChainFacts) => string | undefined
  readonly plugins: readonly ChainPlugin[]
  readonly rpc: PaymentRpc
  readonly signal: AbortSignal
  /** Milliseconds since 1970. */
  readonly nowMs: number
  readonly assets?: AssetTable
}

/** A payment that was understood completely, ready for policy, approval and signer. */
export interface BuiltPayment {
  readonly decoded: Decoded
  /** What to show: what it is for, then the effects. The seller's own texts are the two below. */
  readonly describe: readonly string[]
  readonly resourceUrl: string
  /** What the seller says about it; empty when it says nothing. */
  readonly description: string
  readonly network: NetworkId
  readonly payTo: string
  readonly amountAtomic: bigint
  readonly validBeforeMs: number
  /**
   * The value of `PAYMENT-SIGNATURE`, from the signer's signature over `decoded.signingBytes`.
   *
   * @throws {TypeError} when it is not our signature over these bytes
   */
  assemble(signature: Uint8Array): { readonly paymentHeader: string; readonly signature: string }
}

export type BuildPayment =
  | { readonly ok: true; readonly payment: BuiltPayment }
  | {
      readonly ok: false
      readonly code: 'VALIDATION_ERROR' | 'BUDGET_EXCEEDED_TX' | 'CHAIN_UNAVAILABLE'
      readonly message: string
    }

interface Wallet {
  readonly plugin: ChainPlugin
  readonly networks: ReadonlySet<string>
  objectTo(terms: OfferTerms): string | undefined
}

/**
 * Builds the payment for an offer, by the same reader as `tollgate pay`: only what is understood exactly is paid. A known
 * token on its own network under its own domain, a plain amount under the cap, a payee that is a wallet, no allowance, no
 * fee of ours, an hour at most. What was built is read back and must be one transfer of the offer's terms; the agent has
 * no say in any byte of it.
 */
export async function buildPayment(request: BuildPaymentRequest): Promise<BuildPayment> {
  const { plugins, accountOn, assets = pinnedAssets } = request
  const { all } = assets.chains
  const offer = offerOf(request.paymentRequired)
  if (typeof offer === 'string') return no('VALIDATION_ERROR', offer)
  const envelope = readEnvelope(offer, request.url)
  if (!envelope.ok) return no('VALIDATION_ERROR', `The offer was refused: ${envelope.message}.`)
  const { accepts } = envelope.offer
  const wallets: Partial<Record<ChainFamily, Wallet>> = {}
  for (const family of ['eip155', 'solana'] as const) {
    const plugin = plugins.find((one) => one.family === family)
    if (plugin === undefined) continue
    const ours = new Map(
      all.flatMap((chain) => {
        const account = chain.family === family ? accountOn(chain) : undefined
        return account === undefined ? [] : [[chain.network as string, account] as const]
      }),
    )
    wallets[family] = {
      plugin,
      networks: new Set(ours.keys()),
      objectTo: (terms) => plugin.termsFault(terms, ours.get(terms.asset.network)!),
    }
  }
  const wishes: EntryWishes = {
    only: request.network,
    fits: ({ asset, amountAtomic }) => {
      const most = claimedAmount(request.maxAmount, asset.decimals)
      return most.ok && amountAtomic <= most.atomic
    },
    assets: payableAssets(assets),
  }
  const granted = chooseEntry(accepts, limitedTo(wallets, request.networks), wishes)
  // When there is nothing for the agent's own networks, it is told which one it lacks.
  const choice = granted.ok ? granted : chooseEntry(accepts, wallets, wishes)
  if (!choice.ok) return no('VALIDATION_ERROR', `The offer was refused: ${choice.message}.`)
  const first = await buildEntry(request, envelope.offer, choice.chosen)
  if (first.ok || first.code === 'BUDGET_EXCEEDED_TX') return first
  for (const other of choice.others) {
    const built = await buildEntry(request, envelope.offer, other)
    if (built.ok) return built
  }
  return first
}

type Wallets = Readonly<Partial<Record<ChainFamily, Wallet>>>

const limitedTo = (wallets: Wallets, networks: ReadonlySet<string> | undefined): Wallets =>
  networks === undefined
    ? wallets
    : Object.fromEntries(
        Object.entries(wallets).map(([family, wallet]) => {
          const both = [...wallet.networks].filter((network) => networks.has(network))
          return [family, { ...wallet, networks: new Set(both) }]
        }),
      )

/** The pinned tokens as the reader of offers takes them. What a unit is worth is not known and decides nothing here. */
const payableAssets = ({ chains, tokensOf }: AssetTable): Asset[] =>
  chains.all.flatMap(({ name, network, family }) =>
    tokensOf(name)
      // Without its domain no authorisation can be made: an offer of it is passed over.
      .filter(({ eip712 }) => family === 'solana' || eip712 !== undefined)
      .map((token) => ({ ...token, network, feeBps: 0, usdPerUnit: '1' })),
  )

/** Builds the payment of one entry; nothing is signed, so another may be tried when this one can not be built. */
async function buildEntry(
  request: BuildPaymentRequest,
  { resource, description, extensions }: Offer,
  { terms, buyer, entry }: ChosenEntry<Wallet>,
): Promise<BuildPayment> {
  const { assets = pinnedAssets } = request
  const chain = assets.chains.ofNetwork(terms.asset.network)
  const account = chain === undefined ? undefined : request.accountOn(chain)
  if (chain === undefined || account === undefined || buyer.plugin.family !== chain.family)
    return no('VALIDATION_ERROR', `The vault does not sign on ${terms.asset.network}.`)
  const cap = claimedAmount(request.maxAmount, terms.asset.decimals)
  if (!cap.ok) return no('VALIDATION_ERROR', `In max_amount. ${cap.message}`)
  if (terms.amountAtomic > cap.atomic) {
    const [price, most] = [terms.amountAtomic, cap.atomic].map((a) => formatAmount(a, terms.asset.decimals))
    return no(
      'BUDGET_EXCEEDED_TX',
      `The price of ${price} ${terms.asset.symbol} is above max_amount, ${most}.`,
    )
  }
  const headerOf = (payload: object) =>
    encodeHeader({ x402Version: 2, payload, resource, accepted: entry, extensions })
  if (headerOf({}).length + PAYLOAD_CHARS > MAX_HEADER_CHARS)
    return no('VALIDATION_ERROR', 'The offer is so long that its payment could not be sent.')

  try {
    const { plugin } = buyer
    const { rpc, signal, nowMs } = request
    const prepared = await plugin.preparePayment({
      chain: chain.name,
      account,
      terms,
      nowMs,
      rpc,
      signal,
      assets,
    })
    const decoded = nameRecipients(prepared.decoded, [terms.payTo], assets)
    const problem = contradiction(decoded, terms, chain.name, assets)
    if (problem !== undefined) return no('VALIDATION_ERROR', problem)
    const url = resource['url'] as string
    const payment: BuiltPayment = {
      decoded,
      describe: [`Pay for what ${hostOf(url) ?? 'the seller'} offers.`, ...decoded.plainWords],
      resourceUrl: url,
      description,
      network: terms.asset.network,
      payTo: terms.payTo,
      amountAtomic: terms.amountAtomic,
      validBeforeMs: prepared.validBeforeMs,
      assemble(signature) {
        const assembled = plugin.assemble(decoded, signature)
        return { paymentHeader: headerOf(prepared.payload(assembled)), signature: assembled.signature }
      },
    }
    return { ok: true, payment }
  } catch (error) {
    if (error instanceof PaymentProblem) return no(error.code, error.message)
    throw error
  }
}

function offerOf(value: unknown): Readonly<Record<string, unknown>> | string {
  if (typeof value === 'string') {
    const decoded = decodeSellerHeader(value)
    return decoded.ok ? decoded.value : `payment_required is not readable. ${decoded.message}`
  }
  return isObject(value) ? value : 'Expected payment_required as the JSON of a 402 or its header.'
}

/** What was built is held to the claim that the offer makes, like a request of an agent. */
function contradiction(
  decoded: Decoded,
  { asset, amountAtomic, payTo }: OfferTerms,
  chain: string,
  assets: AssetTable,
): string | undefined {
  const amount = formatAmount(amountAtomic, asset.decimals)
  // A seller may write its address in one case only; the reader of offers has checked a mixed one.
  const recipient = payTo.startsWith('0x') ? payTo.toLowerCase() : payTo
  const proof = proveClaim({ chain, amount, currency: asset.symbol, recipient }, decoded, {
    assets,
    maxFee: 0n,
  })
  return proof.ok ? undefined : `The payment was not built as offered. ${proof.message}`
}

const no = (code: Extract<BuildPayment, { ok: false }>['code'], message: string): BuildPayment => ({
  ok: false,
  code,
  message,
})
