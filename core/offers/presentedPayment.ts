import { base58 } from '@scure/base'
import { builtInAssets } from '../domain/asset.ts'
import { familyOf, knownNetworks, type NetworkId, networkOfV1Name } from '../domain/network.ts'
import {
  evmPaymentKey,
  evmPaymentKeyPrefix,
  type PaymentKey,
  type PaymentRecord,
  solanaPaymentKey,
} from '../domain/payment.ts'
import { TollgateError, type TollgateErrorOptions } from '../errors/error.ts'
import { permit2Address } from '../evm/permit2.ts'
import type { Payments, PresentedPayment } from '../payments/payments.ts'
import type { Checked, Refusal } from '../ports/chains/settler.ts'
import { readMessage } from '../solana/message.ts'
import { MAX_TRANSACTION_BYTES, readWireTransaction } from '../solana/wire.ts'
import { decodeStrictBase64, type ReadPayment, readPayment } from '../x402/header.ts'
import { isObject, own } from '../x402/strictJson.ts'
import type { PaymentPayload } from '../x402/types.ts'
import type { Offer } from './offers.ts'

/** What a link or payment session accepts as payment, over HTTP, MCP or its page. */
export interface Taken {
  /** All offers, including closed ones. A buyer who has paid with a closed offer gets what the payment has bought. */
  readonly offers: readonly Offer[]
  readonly payments: Pick<Payments, 'find'>
  readonly acceptV1: boolean
  /** Without a trailing slash. */
  readonly publicUrl: string
  /** The call's own `Host`. It is read only if the payment names another host than `publicUrl`. */
  host(): string | undefined
}

/**
 * Reads a payment, and checks its terms and signature. Only a payment with a valid signature may be claimed, so that a forged
 * payment cannot block a buyer's nonce.
 *
 * @param header value of `PAYMENT-SIGNATURE` (version 2) or `X-PAYMENT` (version 1)
 * @param given the header, if it was already read
 * @returns synchronously if no chain and no database has to be queried
 * @throws `invalid_payment` or `settlement_unavailable` with the x402 reason, or rejects with it
 */
export function presentPayment(
  header: string,
  version: 1 | 2,
  taken: Taken,
  given?: ReadPayment,
): PresentedPayment | Promise<PresentedPayment> {
  const { offers, payments, acceptV1 } = taken
  const bare = version === 1 && acceptV1 ? readBareTransaction(header) : undefined
  if (bare !== undefined) return presentBare(taken, header, bare)
  const read = given ?? readPayment(header)
  if (!read.ok) {
    throw new TollgateError('invalid_payment', read.message, { reason: 'invalid_payload', isUnread: true })
  }
  if (read.payment.x402Version === 1 && !acceptV1) {
    const refusal = refuse('invalid_x402_version', 'Expected a payment of x402 version 2, got version 1.')
    return presentFormer(payments, [read.payment], refusal)
  }
  const offer = select(offers, read.payment)
  if (offer === undefined) return presentFormer(payments, [read.payment], notTaken(offers))
  const fault = resourceFault(read.resourceUrl, taken)
  const checked = offer.settler.check(read.payment, offer.terms)
  return checked instanceof Promise
    ? checked.then((late) => accept(payments, read.payment, offer, late, fault))
    : accept(payments, read.payment, offer, checked, fault)
}

/**
 * The refusal of a payment that names another server, because the buyer has signed an offer of that server. If the text is not a
 * web address, such as an MCP client's name of a tool, it names no server.
 */
export function resourceFault(
  url: string | undefined,
  { publicUrl, host }: Pick<Taken, 'publicUrl' | 'host'>,
): TollgateError | null {
  if (url === undefined || (url.startsWith(publicUrl) && url[publicUrl.length] === '/')) return null
  const named = URL.parse(url)
  if (named === null || !['http:', 'https:'].includes(named.protocol)) return null
  const called = [publicUrl, `${named.protocol}//${host()}`]
  if (called.some((own) => URL.parse(own)?.host === named.host)) return null
  return refuse(
    'invalid_resource',
    `Expected a payment for ${publicUrl}, got one whose resource.url is at ${named.origin}. Nothing was charged. Pay an offer that this address sent.`,
  )
}

/**
 * Accepts a transaction without an envelope. It does not name its offer, so the first Solana offer that it pays exactly applies. It
 * counts as a payment of version 1, and has the same key as with an envelope. The terms name the fee payer of the 402. If the buyer
 * is the only signer, the buyer is the fee payer.
 */
async function presentBare(
  { offers, payments }: Taken,
  transaction: string,
  { feePayer, isSelfPaid }: BareTransaction,
): Promise<PresentedPayment> {
  let refused: TollgateError | undefined
  for (const listed of offers) {
    const { scheme, network, extra } = listed.terms
    if (familyOf(network) !== 'solana') continue
    const offer = isSelfPaid
      ? { ...listed, terms: { ...listed.terms, extra: { ...extra, feePayer } } }
      : listed
    const payment: PaymentPayload = { x402Version: 1, scheme, network, payload: { transaction } }
    const checked = await offer.settler.check(payment, offer.terms)
    // The transaction pays this offer's token, which no other offer has.
    if (checked.ok || checked.identity !== undefined) return accept(payments, payment, offer, checked)
    refused ??= refusalOfOffer(offer, checked)
  }
  if (refused?.isUnread) throw refused
  const notSolana = 'The payment is a Solana transaction, but this link cannot be paid on Solana.'
  const networks = offers.map(({ settler }) => settler.network)
  return presentFormer(
    payments,
    barePayments(transaction, networks),
    refused ?? refuse('invalid_network', notSolana),
  )
}

/** @param refusal the error if the payment is not in the ledger */
async function presentFormer(
  payments: Pick<Payments, 'find'>,
  readings: readonly PaymentPayload[],
  refusal: TollgateError,
): Promise<PresentedPayment> {
  for (const payload of readings) {
    const found = await formerPayment(payments, payload, refusal)
    if (found !== undefined) return found
  }
  throw refusal
}

/**
 * @param fault why the payment cannot buy a new call although its signature is valid. If it has already bought a call, the buyer
 *   still gets the response
 */
function accept(
  payments: Pick<Payments, 'find'>,
  payload: PaymentPayload,
  offer: Offer,
  checked: Checked,
  fault: TollgateError | null = null,
): PresentedPayment | Promise<PresentedPayment> {
  const { terms, settler, isClosed } = offer
  const { identity } = checked
  const found = (unclaimable: Error | null) => ({
    payload,
    terms,
    settler,
    identity: identity!,
    unclaimable,
  })
  if (checked.ok) return found(isClosed ? notOffered(settler.network) : fault)
  if (identity !== undefined) return found(isClosed ? notOffered(settler.network) : refusalOf(checked))
  const refusal = refusalOfOffer(offer, checked, payload)
  if (checked.isUnread) throw refusal
  // The payment may have been claimed while its signature was valid. A contract wallet can withdraw a signature, and a facilitator
  // reports a settled payment as invalid.
  const named = { ...payload, accepted: { ...payload.accepted, asset: terms.asset } }
  return presentFormer(payments, payload.x402Version === 1 ? [named, payload] : [named], refusal)
}

/** @param payload the payment, which names its payer. Absent if it names none */
const refusalOfOffer = (
  { terms: { network }, settler, isClosed }: Offer,
  checked: Refusal,
  payload?: PaymentPayload,
): TollgateError =>
  isClosed && !checked.transient
    ? notOffered(settler.network)
    : refusalOf(checked, { network, ...(payload && payerOf(payload)) })

const notOffered = (network: NetworkId) => {
  const where = familyOf(network) === 'solana' ? `Solana (${network})` : network
  return new TollgateError(
    'invalid_payment',
    `This link cannot be paid on ${where}. Pay an entry of accepts in its 402.`,
    { reason: 'invalid_network', receipt: { network } },
  )
}

/** Selects an offer by the payment's `accepted`. All terms come from the link, never from the payment. */
function select(offers: readonly Offer[], payment: PaymentPayload): Offer | undefined {
  const network = payment.x402Version === 1 ? networkOfV1Name(payment.network) : payment.network
  const asset =
    payment.accepted !== undefined && Object.hasOwn(payment.accepted, 'asset')
      ? payment.accepted['asset']
      : undefined
  const onNetwork = offers.filter((o) => o.terms.network === network && o.terms.scheme === payment.scheme)
  return typeof asset === 'string'
    ? onNetwork.find((o) => o.terms.asset === asset || o.terms.asset.toLowerCase() === asset.toLowerCase())
    : onNetwork[0]
}

function notTaken(offers: readonly Offer[]): TollgateError {
  const open = offers.filter(({ isClosed }) => !isClosed)
  const accepted =
    open.map((o) => `${o.terms.scheme} on ${o.terms.network}`).join(', ') || 'nothing at the moment'
  return refuse('invalid_network', `Expected a payment by ${accepted}, got one for something else.`)
}

const refuse = (reason: string, message: string) => new TollgateError('invalid_payment', message, { reason })

/**
 * Turns a refusal into an error. A failure of the gateway or the chain is a 503. A fault of the payment is `invalid_payment`.
 *
 * @param receipt known facts of a payment that is not on the exchange
 */
export function refusalOf(
  { reason, message, transient, isUnread, extra }: Refusal,
  receipt?: TollgateErrorOptions['receipt'],
): TollgateError {
  const options = { reason, ...(receipt !== undefined && { receipt }), ...(extra !== undefined && { extra }) }
  return transient
    ? new TollgateError('settlement_unavailable', message, { ...options, retryAfterSeconds: 5 })
    : new TollgateError('invalid_payment', message, { ...options, ...(isUnread && { isUnread }) })
}

/** The payer that an EVM payment names, even if its signature is invalid. Public facilitators report it too. */
function payerOf({ payload }: PaymentPayload): { payer?: string } {
  const signed = payload['authorization'] ?? payload['permit2Authorization']
  const from = isObject(signed) ? own(signed, 'from') : undefined
  return typeof from === 'string' && /^0x[0-9a-fA-F]{40}$/.test(from) ? { payer: from } : {}
}

/** A Solana transaction without an envelope. */
interface BareTransaction {
  /** Base58 address of the transaction's first account, which pays the network fee. */
  readonly feePayer: string
  /** True if the buyer is the only signer, so that the transaction can land without the gateway. */
  readonly isSelfPaid: boolean
}

/**
 * Reads a header that contains one Solana transaction, in strict base64, with a signature slot for each signer. Clients older than
 * x402 send `X-PAYMENT` in this form (marketplace interface, "An earlier form"). The settler checks payee and signature. A JSON
 * text cannot be mistaken for a transaction, because its first byte would mean at least nine signatures, and no message could be
 * read after them.
 *
 * @returns undefined for any other header
 */
function readBareTransaction(header: string): BareTransaction | undefined {
  const bytes = decodeStrictBase64(header, MAX_TRANSACTION_BYTES)
  const transaction = bytes === undefined ? undefined : readWireTransaction(bytes)
  const message = transaction === undefined ? undefined : readMessage(transaction.message)
  if (message === undefined || message.requiredSignatures !== transaction!.signatures.length) return undefined
  return { feePayer: base58.encode(message.keys[0]!), isSelfPaid: message.requiredSignatures === 1 }
}

type Signed = Readonly<Record<string, unknown>>

/**
 * Finds a payment that no settler accepts any more, because the gateway no longer accepts its network or asset, or its signature is
 * no longer valid. The payment may have been claimed while it was valid, and may have bought something. The ledger stores the
 * signed payment. A caller with the same signature gets what the payment has bought, as if a settler had checked the signature.
 *
 * @param unclaimable the error for every other caller
 */
async function formerPayment(
  payments: Pick<Payments, 'find'>,
  payload: PaymentPayload,
  unclaimable: Error,
): Promise<PresentedPayment | undefined> {
  for (const key of keysOf(payload)) {
    const record = await payments.find(key)
    if (record !== undefined && isSigned(payload.payload, record))
      return { payload, terms: termsOf(record), identity: record, settler: null, unclaimable }
  }
}

/** The keys that the payment would have in the ledger by its own claims, which are not proved. */
function keysOf({ x402Version, network: named, accepted, payload }: PaymentPayload): PaymentKey[] {
  const network = (x402Version === 1 && networkOfV1Name(named)) || (named as NetworkId)
  switch (familyOf(network)) {
    case 'solana': {
      const message = messageOf(payload)
      return message === undefined ? [] : [solanaPaymentKey(network, message)]
    }
    case 'eip155': {
      const permit = own(payload, 'permit2Authorization')
      if (isObject(permit)) {
        const [payer, nonce] = [textOf(permit, 'from'), textOf(permit, 'nonce')]
        if (payer === undefined || nonce === undefined) return []
        return [evmPaymentKey(evmPaymentKeyPrefix(network, permit2Address), payer.toLowerCase(), nonce)]
      }
      const authorization = own(payload, 'authorization')
      if (!isObject(authorization)) return []
      const [payer, nonce] = [textOf(authorization, 'from'), textOf(authorization, 'nonce')]
      if (payer === undefined || nonce === undefined) return []
      // Version 1 names no asset.
      const assetText = accepted && textOf(accepted, 'asset')
      const assets =
        assetText === undefined
          ? builtInAssets.filter((a) => a.network === network)
          : [{ address: assetText }]
      return assets.map(({ address }) =>
        evmPaymentKey(evmPaymentKeyPrefix(network, address), payer.toLowerCase(), nonce.toLowerCase()),
      )
    }
    default:
      return []
  }
}

/**
 * A Solana transaction without an envelope, as a payment on each network that it may be for.
 *
 * @param configured networks to try besides those that Tollgate knows by name
 */
const barePayments = (transaction: string, configured: readonly NetworkId[]): PaymentPayload[] =>
  [...new Set([...knownNetworks.map(({ id }) => id), ...configured])]
    .filter((network) => familyOf(network) === 'solana')
    .map((network) => ({ x402Version: 1, scheme: 'exact', network, payload: { transaction } }))

/**
 * Whether the stored signature is the same. An equal key is not enough, because it means only the same authorization or message.
 */
function isSigned(payload: Signed, record: PaymentRecord): boolean {
  const kept: unknown = JSON.parse(record.payload)
  const known = isObject(kept) ? own(kept, 'payload') : undefined
  if (!isObject(known)) return false
  return ['signature', 'transaction'].some((field) => {
    const text = textOf(payload, field)
    return text !== undefined && text === textOf(known, field)
  })
}

const termsOf = ({ scheme, network, asset, payTo, amountAtomic }: PaymentRecord) => ({
  scheme,
  network,
  asset,
  payTo,
  amount: amountAtomic.toString(),
  maxTimeoutSeconds: 0,
  extra: {},
})

function messageOf(payload: Signed): Uint8Array | undefined {
  const encoded = textOf(payload, 'transaction')
  const bytes = encoded === undefined ? undefined : decodeStrictBase64(encoded, MAX_TRANSACTION_BYTES)
  return bytes === undefined ? undefined : readWireTransaction(bytes)?.message
}

function textOf(object: Signed, name: string): string | undefined {
  const value = own(object, name)
  return typeof value === 'string' ? value : undefined
}
