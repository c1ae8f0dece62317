import type { Duplex } from 'node:stream'
import type { ChannelCall } from '../channels/channelCall.ts'
import type { ServedLink } from '../domain/link.ts'
import type { AtomicAmount } from '../domain/money.ts'
import type { NetworkId } from '../domain/network.ts'
import { readBody } from '../http/body.ts'
import type { Reply } from '../http/replies.ts'
import type { FreshOffer } from '../offers/refusedPayment.ts'
import type { ReceiptSigning } from '../payments/chargeReceipt.ts'
import type { PaidCall, PresentedPayment } from '../payments/payments.ts'
import type { PurchaseNote } from '../payments/purchase.ts'
import type { UseMeter } from '../pricing/useMeter.ts'
import type { Transport, Upgrade } from './transport.ts'

/** The seller's complete response, in memory. After an upgrade to a WebSocket, it contains the seller's connection instead. */
export interface SellerResponse {
  readonly status: number
  /** Names and values in turn. Every header in this list may reach the buyer, because the list is already filtered. */
  readonly headers: readonly string[]
  /** Media type in lower case, without parameters. Empty if the seller stated none. */
  readonly mediaType: string
  readonly body: Uint8Array
  /** The seller's side of an upgraded connection after its handshake. Null for other responses. */
  readonly tunnel: Duplex | null
}

/** A caller that has proved by a signature that it owns a wallet (x402 extension `sign-in-with-x`). */
export interface SignedIn {
  readonly wallet: string
  readonly network: NetworkId
  /** The earlier purchase of the link that gives access. Null if the link is for all signed-in wallets. */
  readonly purchase: PurchaseNote | null
}

export interface Settlement {
  readonly transaction: string
  /** Receipt headers (`PAYMENT-RESPONSE`) of a response that reports a failure after the charge, names and values in turn. */
  readonly headers: readonly string[]
  /**
   * Receipt headers of the seller's response with this status. If the gateway signs receipts, they contain the signed receipt, unless
   * the seller has failed (400 and above).
   */
  headersFor(status: number): readonly string[]
}

/** How the seller's API behaved, for the health monitor. Null until the gateway calls the API. */
export type UpstreamOutcome = 'answered' | 'failed' | 'timeout' | 'buyer-left'

/**
 * How a call ended.
 *
 * - `402`: the caller got the price.
 * - `paid`: this call charged the payment and recorded the sale.
 * - `repeated`: the payment had already bought this call.
 * - `pending`: the outcome of the settlement was not known in time.
 * - `refused`: a 4xx response.
 * - `failed`: a 5xx response.
 * - `free`: the caller got a response without paying.
 * - `left`: the caller disconnected before the response.
 */
export type CallOutcome = '402' | 'paid' | 'repeated' | 'pending' | 'refused' | 'failed' | 'free' | 'left'

/** One call in a link's pipeline. Every field is set here, so that V8 gives all exchanges the same object shape. */
export class Exchange {
  /** The transport that received the call and sends its response. */
  readonly transport: Transport
  /** HTTP method, such as `GET`. */
  readonly method: string
  /**
   * The link that is called. It is null at first, and not a field of {@link ExchangeInit}. If V8 had seen only links in the field,
   * it would check each link's shape, which is slow if there are very many links (bench/scale.ts, `scale_free_vs_ten`).
   */
  readonly link: ServedLink = null as never
  /**
   * The path after `/api/link/<seller>/<slug>`, which is empty or `/rest`. It has the only spelling that the gateway accepts, and
   * is never decoded.
   */
  readonly subPath: string
  /** The query string with its leading `?`. Empty if the request has none. */
  readonly query: string
  readonly clientIp: string
  readonly startedAtMs: number
  /** The caller's WebSocket request. Null for ordinary calls. */
  readonly upgrade: Upgrade | null
  /** Raw value of `PAYMENT-SIGNATURE` or `X-PAYMENT`. */
  readonly paymentHeader: string | null
  /** x402 version of the caller, from its payment header, `X402-Version` or `?x402Version=1`. */
  readonly x402Version: 1 | 2
  readonly hasBody: boolean

  /**
   * The request body, if a plugin has read it or if it arrived before the call started. The gateway then forwards this buffer.
   * Otherwise null.
   */
  body: Buffer | null
  payment: PresentedPayment | null = null
  /**
   * How this call can be paid, for the response to a refused payment. Null if all calls of the link have the same offer
   * (`RouteHooks.offer`).
   */
  offer: FreshOffer | null = null
  /** Signs the receipt of this call. Null if the gateway signs no receipts, and until the payment was read. */
  receiptSigning: ReceiptSigning | null = null
  /** This call's right to use the payment. Only one call can get this right. */
  claim: PaidCall | null = null
  /** The payment by a channel, from which the call is charged. Such a call has neither `payment` nor `claim`. */
  channelCall: ChannelCall | null = null
  response: SellerResponse | null = null
  /**
   * The values of the header `Settlement-Overrides` of the seller's response, by which a seller states what the call has cost. Null
   * if the response has no such header. The buyer never gets this header.
   */
  settlementOverrides: readonly string[] | null = null
  /**
   * Counts what the call uses, if the buyer gets the response before the charge. A hook sets it before the forward phase. Null for
   * every other call.
   */
  meter: UseMeter | null = null
  /**
   * The amount to charge in atomic units, if the call is sold by `upto`. A hook sets it before the settle phase. It is at most the
   * authorized amount, and 0 charges nothing. Null charges the authorized amount.
   */
  chargeAtomic: AtomicAmount | null = null
  settlement: Settlement | null = null
  purchase: PurchaseNote | null = null
  /** The wallet with which the caller has signed in. Null for other callers. */
  signedIn: SignedIn | null = null
  upstreamStatus = 0
  upstreamOutcome: UpstreamOutcome | null = null
  /** Time from the request to the seller until the end of its response, in ms. -1 if the gateway did not call the seller's API. */
  sellerMs = -1
  /** Duration of the payment's settlement, in ms. -1 if this call settled no payment. */
  settleMs = -1
  /** The link's pipeline, which only the kernel uses to find the plugins' hooks. Null while no pipeline runs. */
  pipeline: object | null = null
  /**
   * Values of the plugins' own slots, by slot index. Null until a plugin writes a slot. Plugins use `env.slot(name)` instead of
   * this field.
   */
  own: unknown[] | null = null
  /** The pending result of {@link readBody}. It is not a private field, because tests view calls through a proxy. */
  reading: Promise<Buffer> | null = null
  /** Headers that plugins add to any response, names and values in turn. Null while there are none. */
  extraHeaders: string[] | null = null
  /** The status of the final response. It is set before the deliver and log hooks run. */
  status = 0
  /** How the call ended. It is set before the deliver and log hooks run. */
  outcome: CallOutcome = 'left'
  /** True if the buyer disconnected before the gateway had sent the whole response. */
  isUnsent = false
  /**
   * True once the call has its response, or was ended because a hook took too long. A hook that resumes after that must do nothing.
   */
  isOver = false
  /** Index in the pipeline of the hook that returned a promise. -1 until a hook returns one. */
  waitsAt = -1
  /** The error code of the response, for logs and metrics. Null on success. */
  errorCode: string | null = null
  /** The complete reply that was sent, for a concurrent repeat of the call. Null if the reply was streamed. */
  reply: Reply | null = null

  constructor(link: ServedLink, init: ExchangeInit) {
    this.link = link
    this.transport = init.transport
    this.method = init.transport.method
    this.subPath = init.subPath
    this.query = init.query
    this.clientIp = init.clientIp
    this.startedAtMs = init.startedAtMs
    this.upgrade = init.transport.upgrade
    this.paymentHeader = init.paymentHeader
    this.x402Version = init.x402Version
    this.hasBody = init.hasBody
    this.body = init.body ?? null
  }

  /** The call's id. It is in the `X-Request-Id` header of the response, in the log, and in the request to the seller. */
  get requestId(): string {
    return this.transport.requestId
  }

  /** A header of the request. @param name in any case (RFC 9110, section 5.1) */
  header(name: string): string | undefined {
    return this.transport.header(name)
  }

  /**
   * Reads the whole request body and sets `body`. The body is read once, even if several plugins request it.
   *
   * @returns null if the body is larger than `maxBytes` or its length is not stated. The body can still be streamed then, unless a
   *   plugin has already read it
   * @throws {TollgateError} `bad_request` if the caller disconnects, or sends fewer bytes than stated
   */
  readBody(maxBytes: number): Promise<Buffer> | null {
    if (this.body !== null) return this.body.length > maxBytes ? null : Promise.resolve(this.body)
    if (this.reading !== null) return Number(this.header('content-length')) > maxBytes ? null : this.reading
    const reading = readBody(this.transport, maxBytes)
    if (reading === null) return null
    this.reading = reading.then((body) => (this.body = body))
    // A plugin may await another promise first. If the caller disconnects meanwhile, this handler prevents an unhandled rejection.
    this.reading.catch(() => undefined)
    return this.reading
  }

  addHeader(name: string, value: string): void {
    if (this.extraHeaders === null) this.extraHeaders = [name, value]
    else this.extraHeaders.push(name, value)
  }
}

export interface ExchangeInit {
  transport: Transport
  subPath: string
  query: string
  clientIp: string
  startedAtMs: number
  paymentHeader: string | null
  x402Version: 1 | 2
  hasBody: boolean
  /** The request body, if it arrived before the call started. */
  body?: Buffer
}
