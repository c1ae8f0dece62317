import type { Asset } from '../../core/domain/asset.ts'
import { formatAmount } from '../../core/domain/money.ts'
import type { ChainFamily, NetworkId } from '../../core/domain/network.ts'
import { type Offer, readEnvelope } from '../../core/x402/envelope.ts'
import { decodeSellerHeader, encodeHeader } from '../../core/x402/header.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { type ChosenEntry, chooseEntry, type EntryWishes } from '../../core/x402/offerTerms.ts'
import { isObject } from '../../core/x402/strictJson.ts'
import { type AssetTable, type ChainFacts, pinnedAssets } from './assets.ts'
import type { ChainPlugin } from './chainPlugin.ts'
import type { Decoded } from './effect.ts'
import { type PaymentClaim, PaymentProblem, type PaymentRpc } from './payment.ts'
import { hostOf, nameRecipients } from './plainWords.ts'
import { claimedAmount, proveClaim } from './proveClaim.ts'

/**
 * Maximum length of a payment header, in characters. Servers refuse a request head above 16 KiB, and a payment's payload can
 * have this many characters.
 */
const MAX_HEADER_CHARS = 15_000
const PAYLOAD_CHARS = 2_400

export interface BuildPaymentRequest {
  /** The offer of a 402 response (x402 v2): its JSON as an object, or the value of the `PAYMENT-REQUIRED` header. */
  readonly paymentRequired: unknown
  /** The maximum payment, in whole units of the token: a number or a string of decimal digits. */
  readonly maxAmount: unknown
  /** Pay only on this CAIP-2 network. Absent: the first entry that can be paid within `maxAmount` is chosen. */
  readonly network?: NetworkId
  /** The networks on which the agent may pay. Entries on other networks are skipped. */
  readonly networks?: ReadonlySet<string>
  /** The URL that the agent called, if it states one. The offer must be for its origin. */
  readonly url?: URL
  /** The vault's address on a chain. A chain without one is skipped. */
  readonly accountOn: (chain: ChainFacts) => string | undefined
  readonly plugins: readonly ChainPlugin[]
  readonly rpc: PaymentRpc
  readonly signal: AbortSignal
  /** Current time in ms since 1970. */
  readonly nowMs: number
  readonly assets?: AssetTable
}

/** A payment that was decoded completely, ready for policy, approval and signer. */
export interface BuiltPayment {
  readonly decoded: Decoded
  /**
   * Sentences to show: the purpose of the payment, then the effects. They exclude the seller's own texts, which are the next
   * two fields.
   */
  readonly describe: readonly string[]
  readonly resourceUrl: string
  /** The seller's description. Empty when there is none. */
  readonly description: string
  readonly network: NetworkId
  readonly payTo: string
  /** In scheme `upto`, the most that can be charged. */
  readonly amountAtomic: bigint
  readonly validBeforeMs: number
  /** What proves later how much was charged. Undefined where the vault gives nothing back. */
  readonly claim: PaymentClaim | undefined
  /**
   * The value of `PAYMENT-SIGNATURE`, from the signer's signature over `decoded.signingBytes`.
   *
   * @throws {TypeError} when the signature is not the vault's over these bytes
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
 * Builds the payment for an offer, with the same parser as `tollgate pay`. It pays only an offer that it understands exactly: a
 * known token on its own network under its own domain or by Permit2, a plain amount within the cap, a payee that is a wallet, no
 * allowance, no fee for the vault's account, valid for an hour at most. The built payment is decoded again. It must be exactly one
 * transfer with the offer's terms, so the agent controls no byte of it. In scheme `upto`, the amount is the most that can be charged,
 * and it counts in full.
 */
export async function buildPayment(request: BuildPaymentRequest): Promise<BuildPayment> {
  const { plugins, accountOn, assets = pinnedAssets } = request
  const { all } = assets.chains
  const offer = offerOf(request.paymentRequired)
  if (typeof offer === 'string') return no('VALIDATION_ERROR', offer)
  const envelope = readEnvelope(offer, request.url)
  if (!envelope.ok) return no('VALIDATION_ERROR', `The offer cannot be paid: ${envelope.message}.`)
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
  // If the agent may use none of the offer's networks, the second choice finds a network that the error names.
  const choice = granted.ok ? granted : chooseEntry(accepts, wallets, wishes)
  if (!choice.ok) return no('VALIDATION_ERROR', `The offer cannot be paid: ${choice.message}.`)
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

/** The pinned tokens as the offer parser needs them. The price of a unit is unknown and decides nothing here. */
export const payableAssets = ({ chains, tokensOf }: AssetTable): Asset[] =>
  chains.all.flatMap(({ name, network, family }) =>
    tokensOf(name)
      // An offer in a token without an EIP-712 domain is skipped, because no authorization can be made for it.
      .filter(({ eip712 }) => family === 'solana' || eip712 !== undefined)
      .map((token) => ({ ...token, network, feeBps: 0, usdPerUnit: '1' })),
  )

/** Builds the payment of one entry. Nothing is signed, so if this fails, another entry can be tried. */
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
    return no(
      'VALIDATION_ERROR',
      'The offer is too long, because its payment would exceed the header limit of servers.',
    )

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
      // The agent sends the offer, so the vault cannot tell whether the named server wrote it.
      describe: [
        `Pay for an offer that names ${hostOf(url) ?? 'a server'}, as the agent sent it.`,
        ...decoded.plainWords,
      ],
      resourceUrl: url,
      description,
      network: terms.asset.network,
      payTo: terms.payTo,
      amountAtomic: terms.amountAtomic,
      validBeforeMs: prepared.validBeforeMs,
      claim: prepared.claim,
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

export function offerOf(value: unknown): Readonly<Record<string, unknown>> | string {
  if (typeof value === 'string') {
    const decoded = decodeSellerHeader(value)
    return decoded.ok ? decoded.value : `payment_required cannot be read. ${decoded.message}`
  }
  return isObject(value) ? value : 'Expected payment_required as the JSON of a 402 or its header.'
}

/** Why the built payment contradicts the offer. The payment is checked like an agent's request, with the offer as the claim. */
function contradiction(
  decoded: Decoded,
  { scheme, asset, amountAtomic, payTo, permit2 }: OfferTerms,
  chain: string,
  assets: AssetTable,
): string | undefined {
  const amount = formatAmount(amountAtomic, asset.decimals)
  // A seller may write its address without mixed case. The offer parser has already checked a mixed-case address.
  const recipient = payTo.startsWith('0x') ? payTo.toLowerCase() : payTo
  const proof = proveClaim({ chain, amount, currency: asset.symbol, recipient }, decoded, {
    assets,
    maxFee: 0n,
  })
  if (!proof.ok) return `The built payment does not match the offer. ${proof.message}`
  const isAsOffered = decoded.effects.every(
    (effect) =>
      effect.kind !== 'transfer' ||
      ((effect.isMost === true) === (scheme === 'upto') &&
        (effect.submitter ?? null) === (permit2?.facilitator ?? null)),
  )
  return isAsOffered ? undefined : 'The built payment does not match the scheme of the offer.'
}

const no = (code: Extract<BuildPayment, { ok: false }>['code'], message: string): BuildPayment => ({
  ok: false,
  code,
  message,
})
