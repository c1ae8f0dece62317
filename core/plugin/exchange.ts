import type { Duplex } from 'node:stream'
import type { ServedLink } from '../domain/link.ts'
import { readBody } from '../http/readBody.ts'
import type { PaidCall, PresentedPayment } from '../payments/payments.ts'
import type { Door, Upgrade } from './door.ts'
import type { Reply } from './reply.ts'

export type { PaidCall, PresentedPayment } from '../payments/payments.ts'

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

/**
 * How a call ended. `402`: it was told the price. `repeated`: its payment had bought it before. `pending`: the settlement was not known
 * in time. `refused`, `failed`: 4xx, 5xx. `free`: it was answered without a price. `left`: the caller had gone.
 */
export type CallOutcome = '402' | 'paid' | 'repeated' | 'pending' | 'refused' | 'failed' | 'free' | 'left'

/**
 * One call on its way through a link's program. All fields are set here, so that every exchange has one shape.
 */
export class Exchange {
  /** Where the call came in and its answer goes out. */
  readonly door: Door
  /** Such as `GET`. */
  readonly method: string
  /**
   * Null for a moment, and no field of {@link ExchangeInit}: where V8 has seen only links, it looks into each whether it is one, and of
   * very many links none is in a cache.
   */
  readonly link: ServedLink = null as never
  /** What stands behind `/api/link/<seller>/<slug>`: empty, or `/rest`; canonical, never decoded. */
  readonly subPath: string
  /** With the leading `?`, or empty. */
  readonly query: string
  readonly clientIp: string
  readonly startedAtMs: number
  /** The door's: null for ordinary calls. */
  readonly upgrade: Upgrade | null
  /** Raw `PAYMENT-SIGNATURE` or `X-PAYMENT`, found while the head was checked. */
  readonly paymentHeader: string | null
  /** x402 version that the caller speaks: by its payment header, `X402-Version` or `?x402Version=1`. */
  readonly x402Version: 1 | 2
  readonly hasBody: boolean

  /** The request body, once a plugin had to read it whole, or where it came so; the forwarder then sends this. */
  body: Buffer | null
  payment: PresentedPayment | null = null
  /** This call's right to use the payment: won once. */
  claim: PaidCall | null = null
  answer: SellerAnswer | null = null
  settlement: Settlement | null = null
  purchase: PurchaseNote | null = null
  upstreamStatus = 0
  upstreamOutcome: UpstreamOutcome | null = null
  /** From the request to the seller to the end of its answer, in milliseconds; -1 where the seller was not asked. */
  sellerMs = -1
  /** What settling the payment took, in milliseconds; -1 where this call settled none. */
  settleMs = -1
  /** The kernel's, to find by it what plugins have for its link; null while none runs. */
  program: object | null = null
  /** Slots of plugins' own, by their places; null until one of them is written. Read and written through `env.slot(name)`. */
  own: unknown[] | null = null
  /** While the body comes: for {@link readBody}. No private field, because tests look at calls through a proxy. */
  reading: Promise<Buffer> | null = null
  /** Flat headers that plugins add to whatever is answered; null while nobody did. */
  extraHeaders: string[] | null = null
  /** What was answered in the end; set before the deliver and log hooks run. */
  status = 0
  /** How it ended; set before the deliver and log hooks run. */
  outcome: CallOutcome = 'left'
  /** True when the buyer had gone before the answer could be sent, or before all of it was. */
  isUnsent = false
  /** The call has been answered, or ended because a hook took too long: whatever wakes up late has nothing to do any more. */
  isOver = false
  /** The place in the program of the hook that answers later; -1 while none did. */
  waitsAt = -1
  /** The error code of the answer, for logs and metrics; null on success. */
  errorCode: string | null = null
  /** The reply that was sent, when it was whole: what a joined repeat of the call gets. */
  reply: Reply | null = null

  constructor(link: ServedLink, init: ExchangeInit) {
    this.link = link
    this.door = init.door
    this.method = init.door.method
    this.subPath = init.subPath
    this.query = init.query
    this.clientIp = init.clientIp
    this.startedAtMs = init.startedAtMs
    this.upgrade = init.door.upgrade
    this.paymentHeader = init.paymentHeader
    this.x402Version = init.x402Version
    this.hasBody = init.hasBody
    this.body = init.body ?? null
  }

  /** By which this call is found again: in `X-Request-Id` of its answer, in the log, and at the seller. */
  get requestId(): string {
    return this.door.requestId
  }

  /** A header of the request. @param name however it is written (RFC 9110, section 5.1) */
  header(name: string): string | undefined {
    return this.door.header(name)
  }

  /**
   * The request's body, whole; it is `body` from then on. It is read once, whoever asks for it and how often.
   *
   * @returns null when it is over `maxBytes` or does not state its length; it can still be streamed unless somebody read it
   * @throws {TollgateError} `bad_request` when the caller breaks off, or sends less than stated
   */
  readBody(maxBytes: number): Promise<Buffer> | null {
    if (this.body !== null) return this.body.length > maxBytes ? null : Promise.resolve(this.body)
    if (this.reading !== null) return Number(this.header('content-length')) > maxBytes ? null : this.reading
    const reading = readBody(this.door, maxBytes)
    if (reading === null) return null
    this.reading = reading.then((body) => (this.body = body))
    // Whoever asked may wait for something else first; a caller who breaks off meanwhile must not end the process.
    this.reading.catch(() => undefined)
    return this.reading
  }

  addHeader(name: string, value: string): void {
    if (this.extraHeaders === null) this.extraHeaders = [name, value]
    else this.extraHeaders.push(name, value)
  }
}

export interface ExchangeInit {
  door: Door
  subPath: string
  query: string
  clientIp: string
  startedAtMs: number
  paymentHeader: string | null
  x402Version: 1 | 2
  hasBody: boolean
  /** Where it came whole. */
  body?: Buffer
}
