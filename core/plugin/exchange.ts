import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { ServedLink } from '../domain/link.ts'
import type { PaymentIdentity, PaymentState } from '../domain/payment.ts'
import type { Settler } from '../ports/settler.ts'
import type { PaymentPayload, PaymentRequirements } from '../x402/types.ts'
import type { Reply } from './reply.ts'

/** A payment that came with the call, checked against the link's own terms and its signature. */
export interface PresentedPayment {
  readonly payload: PaymentPayload
  readonly terms: PaymentRequirements
  readonly identity: PaymentIdentity
  readonly settler: Settler
  /**
   * Why the payment can't be claimed now: its time is over, or the link's terms are others by now. It still gets what
   * it has bought already. Null for a payment that may be claimed.
   */
  readonly unclaimable: Error | null
}

/** This call's right to use the payment: won once, by one durable insert. */
export interface Claim {
  readonly key: string
  readonly owner: string
  /** Known before anything is charged, so that a buyer hears it even when the outcome is open. */
  readonly purchaseId: string
  /** Where this process last moved the payment to; whoever moves it says so here. */
  state: PaymentState
}

/** What the seller answered, whole and in memory; or the connection, after an upgrade. */
export interface SellerAnswer {
  readonly status: number
  /** Flat and already filtered: what may reach the buyer. */
  readonly headers: readonly string[]
  /** Lower case, without parameters; empty when the seller named none. */
  readonly mediaType: string
  readonly body: Uint8Array
  /** The seller's side of an upgraded connection, its handshake done; null for ordinary answers. */
  readonly tunnel: Duplex | null
}

export interface Settlement {
  readonly transaction: string
  /** Flat: the receipt headers of the answer (`PAYMENT-RESPONSE`). */
  readonly headers: readonly string[]
}

/** What is added to a paid answer. Known before the answer when the link settles first, so that a stream can be wrapped. */
export interface PurchaseNote {
  readonly id: string
  readonly reviewToken: string
  /** `{"data":` and `,"_svc":{…}}` as bytes; null when the link answers raw. */
  readonly wrap: { readonly prefix: Uint8Array; readonly suffix: Uint8Array } | null
  /** Flat: `X-Purchase-Id` and `X-Review-Token`. */
  readonly headers: readonly string[]
}

/** How the seller's API behaved, for the health monitor. Null while it was not asked. */
export type UpstreamOutcome = 'answered' | 'failed' | 'timeout' | 'buyer-left'

/** The values that plugins hand to later plugins; the order check knows who reads and who writes which. */
export type Slot = 'payment' | 'claim' | 'answer' | 'settlement' | 'purchase'

/**
 * One call on its way through a link's program. All fields are set here, so that every exchange has one shape.
 */
export class Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly link: ServedLink
  /** What stands behind `/api/link/<seller>/<slug>`: empty, or `/rest`; canonical, never decoded. */
  readonly subPath: string
  /** With the leading `?`, or empty. */
  readonly query: string
  readonly clientIp: string
  readonly startedAtMs: number
  /** The socket of an upgrade request and what was read past its head; null for ordinary calls. */
  readonly upgrade: { readonly socket: Duplex; readonly head: Buffer } | null
  /** Raw `PAYMENT-SIGNATURE` or `X-PAYMENT`, found while the head was checked. */
  readonly paymentHeader: string | null
  /** x402 version that the caller speaks: by its payment header, `X402-Version` or `?x402Version=1`. */
  readonly x402Version: 1 | 2
  readonly hasBody: boolean

  /** The request body when a plugin had to read it whole; the forwarder then sends this. */
  body: Buffer | null = null
  payment: PresentedPayment | null = null
  claim: Claim | null = null
  answer: SellerAnswer | null = null
  settlement: Settlement | null = null
  purchase: PurchaseNote | null = null
  upstreamStatus = 0
  upstreamOutcome: UpstreamOutcome | null = null
  /** Set when the health plugin has counted the call as one that the seller's API is asked. */
  isCountedByHealth = false
  /** Flat headers that plugins add to whatever is answered; null while nobody did. */
  extraHeaders: string[] | null = null
  /** What was answered in the end; set before the log hooks run. */
  status = 0
  /** True when the buyer had gone before the answer could be sent, or before all of it was. */
  isUnsent = false
  /** The error code of the answer, for logs and metrics; null on success. */
  errorCode: string | null = null
  /** The reply that was sent, when it was whole: what a joined repeat of the call gets. */
  reply: Reply | null = null

  constructor(init: ExchangeInit) {
    this.req = init.req
    this.res = init.res
    this.link = init.link
    this.subPath = init.subPath
    this.query = init.query
    this.clientIp = init.clientIp
    this.startedAtMs = init.startedAtMs
    this.upgrade = init.upgrade
    this.paymentHeader = init.paymentHeader
    this.x402Version = init.x402Version
    this.hasBody = init.hasBody
  }

  addHeader(name: string, value: string): void {
    if (this.extraHeaders === null) this.extraHeaders = [name, value]
    else this.extraHeaders.push(name, value)
  }
}

export interface ExchangeInit {
  req: IncomingMessage
  res: ServerResponse
  link: ServedLink
  subPath: string
  query: string
  clientIp: string
  startedAtMs: number
  upgrade: { socket: Duplex; head: Buffer } | null
  paymentHeader: string | null
  x402Version: 1 | 2
  hasBody: boolean
}
