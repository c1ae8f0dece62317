import { Pieces } from '../../core/http/body.ts'
import {
  jsonNull,
  paidHeaders,
  paidStatus,
  uncachedHeaders,
  wrapKind,
} from '../../core/payments/paidReply.ts'
import type { PurchaseNote } from '../../core/payments/purchase.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Transport } from '../../core/plugin/transport.ts'
import type { UpstreamController, UpstreamHandler } from '../../core/ports/egress.ts'
import type { HeldResponse } from '../../core/ports/responseBuffer.ts'
import { CHARGE_LEAD_MS, type UseMeter } from '../../core/pricing/useMeter.ts'
import { BuyerLeft, ResponseRefused, ResponseTimeout, UpstreamBusy } from './failure.ts'
import { fittedHead, type ResponseHead, responseHead } from './headers.ts'
import type { Limits } from './options.ts'
import { type Holder, PACE_MS, Pace, type Slot } from './slots.ts'

/** Maximum size of a body that is sent in one write with its head, in bytes. The body must have arrived in one piece. */
const SMALL_BYTES = 16_384
/** The longest timer of Node, in ms. */
const MAX_TIMER_MS = 2_147_483_647

/**
 * Streams a seller's response to the buyer with backpressure in both directions, for free calls, calls that were charged
 * first, and metered calls, which are charged at the end. It wraps a paid JSON response by writing the two halves of the wrapper around the response.
 *
 * Each call has one object, which the pool calls directly, without closures or header objects (bench/free.ts).
 */
export class StreamedResponse implements UpstreamHandler, Holder {
  #controller: UpstreamController | null = null
  #head: ResponseHead | null = null
  #status = 0
  #ended = false
  #headSent = false
  #hasBody = false
  #hasStalled = false
  #suffix: Uint8Array | null = null
  #bytes = 0
  /** Bytes that the buyer has to read before the gateway requests more. 0 while the gateway does not wait for the buyer. */
  #waitedFor = 0
  /** Pieces of a charged response, kept for a repeat of the call while they are few enough. Null if nothing is kept. */
  #kept: Pieces | null
  /** The memory of the kept pieces. Null on free links. */
  readonly #held: HeldResponse | null
  #waitsForMemory = false
  /**
   * A timer for the times when the pool's own timers do not run or do not suffice: between interim responses, after the buyer has
   * disconnected, and for the whole duration of a free response.
   */
  #clock: NodeJS.Timeout | null = null
  #abortedBy: Error | null = null
  readonly #x: Exchange
  readonly #slot: Slot
  readonly #transport: Transport
  readonly #keepBytes: number
  readonly #limits: Limits
  readonly pace: Pace
  readonly #done: (error: Error | null) => void
  readonly #note: PurchaseNote | null
  /** Ends the response of a metered call while its payment can still be settled. */
  #deadline: NodeJS.Timeout | null = null
  #isMetered = false

  /**
   * @param held memory of the kept pieces. Null on free links
   * @param keepBytes how much of a charged response is kept for a repeat of the call, in bytes. 0 on free links
   * @param done called once. Its argument is null if the whole response was written. After an error before the head was sent, the
   *   caller of `done` is left to send a response. After a later error, the buyer's connection was cut, so that the buyer does not
   *   mistake a partial response for a complete one
   * @param note the ids of a metered call, whose purchase is recorded only after the response. Null for other calls
   */
  constructor(
    x: Exchange,
    slot: Slot,
    held: HeldResponse | null,
    keepBytes: number,
    limits: Limits,
    done: (error: Error | null) => void,
    note: PurchaseNote | null = null,
  ) {
    this.#note = note
    this.#x = x
    this.#slot = slot
    this.#held = held
    this.#transport = x.transport
    this.#keepBytes = keepBytes
    this.#limits = limits
    this.pace = new Pace(limits.slowestBytesPerSecond)
    this.#kept = keepBytes > 0 ? new Pieces() : null
    this.#done = done
    x.transport.onClose(() => this.#buyerClosed())
    if (x.meter === null) return
    const leftMs = x.meter.chargeUntilMs - Date.now() - CHARGE_LEAD_MS
    this.#deadline = setTimeout(() => this.#authorizationEnds(), Math.min(leftMs, MAX_TIMER_MS))
  }

  /** Whether the seller has begun a response that the call's meter counts, so that the buyer is charged at its end. */
  get isMetered(): boolean {
    return this.#isMetered
  }

  get #isFree(): boolean {
    return this.#keepBytes === 0
  }

  get headSent(): boolean {
    return this.#headSent
  }

  /**
   * Whether the buyer reads too slowly. If the response cannot be stored, a payer gets as much time as a payer who reads nothing.
   */
  isBehind(nowMs: number): boolean {
    const mayComeBack = this.#isFree || this.#kept !== null
    return this.pace.isBehind(nowMs, mayComeBack ? PACE_MS : this.#limits.bodyTimeoutMs)
  }

  preempt(): void {
    // The call is charged, so it continues as if its buyer had disconnected.
    if (this.#x.settlement !== null) return this.#transport.cutOff()
    this.#x.meter?.stop('left')
    const needed = 'Other calls needed the connection.'
    this.#abort(this.#headSent ? new BuyerLeft(needed) : new UpstreamBusy(needed))
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller
    this.#slot.connected()
    if (this.#abortedBy !== null) return controller.abort(this.#abortedBy)
    if (this.#transport.isClosed) this.#buyerClosed()
  }

  onResponseStart(controller: UpstreamController, status: number): void {
    if (status < 200) {
      // Each interim response restarts the pool's timer, so without this timer a flood of them would never end.
      this.#clock ??= setTimeout(() => this.#abort(new ResponseTimeout()), this.#limits.headersTimeoutMs)
      return
    }
    if (this.#clock !== null && !this.#transport.isClosed) this.#stopClock()
    this.#x.upstreamStatus = status
    this.#status = status
    this.#head = responseHead(controller.rawHeaders ?? [])
    this.#x.settlementOverrides = this.#head.overrides
    if (this.#isFree) {
      const isMore = this.#head.contentLength > this.#limits.maxFreeResponseBytes
      if (isMore && status !== 304 && this.#x.method !== 'HEAD') this.#tooLarge()
      return
    }
    if (status >= 500) this.#abort(new ResponseRefused(`The seller's API failed with status ${status}.`))
    else if (status >= 300 && status < 400 && status !== 304)
      this.#abort(new ResponseRefused("The seller's API redirected."))
    else this.#fit()
    if (this.#x.meter !== null && status < 300 && this.#abortedBy === null) this.#meter(this.#x.meter)
  }

  /** Begins to count the response. A buyer who disconnected while the seller worked is charged for that work. */
  #meter(meter: UseMeter): void {
    this.#isMetered = true
    const { mediaType, overrides } = this.#head!
    meter.begin({ mediaType, overrides: overrides ?? [] })
    if (this.#transport.isClosed) this.#abort(new BuyerLeft())
  }

  /** A payment cannot be settled after its authorization has ended, and the buyer has signed when that is. */
  #authorizationEnds(): void {
    this.#x.meter!.stop('left')
    this.#abort(new ResponseRefused('The response took longer than the payment is valid.'))
  }

  #fit(): void {
    const head = this.#head!
    try {
      this.#head = { ...head, headers: fittedHead(head.headers, this.#x) }
    } catch (error) {
      this.#abort(error as Error)
    }
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    const transport = this.#transport
    this.#hasBody = true
    this.#bytes += chunk.length
    if (this.#isMetered) this.#x.meter!.push(chunk)
    if (this.#isFree) {
      if (this.#bytes > this.#limits.maxFreeResponseBytes) return this.#tooLarge()
    } else if (this.#kept !== null) this.#keep(controller, chunk)
    if (transport.isClosed) {
      if (this.#kept === null) this.#abort(new BuyerLeft())
      return
    }
    if (!this.#headSent) {
      const isWhole = this.#head!.contentLength === chunk.length && chunk.length <= SMALL_BYTES
      if (isWhole && this.#isFree && this.#x.signedIn === null) {
        this.#writeFreeHead(chunk.length)
        transport.end(chunk)
        return
      }
      this.#begin()
    }
    if (transport.write(chunk)) return
    this.#waitedFor += chunk.length
    // The TLS layer delivers the rest of a record even after a pause, so the response is already paused here.
    if (this.#waitedFor > chunk.length) return
    controller.pause()
    this.#watchBuyer()
    this.pace.waits()
    transport.onDrain(() => {
      this.pace.moved(this.#waitedFor)
      this.#waitedFor = 0
      controller.resume()
    })
  }

  onResponseEnd(): void {
    if (this.#ended) return
    this.#end()
    const transport = this.#transport
    if (!transport.hasEnded && !transport.isClosed) {
      if (!this.#headSent) this.#begin()
      if (this.#suffix === null) transport.end()
      else transport.end(this.#hasBody ? this.#suffix : Buffer.concat([jsonNull, this.#suffix]))
    }
    this.#x.upstreamOutcome = 'answered'
    this.#x.meter?.stop('whole')
    if (this.#kept !== null) this.#offerKept()
    this.#done(null)
  }

  onResponseError(_controller: UpstreamController | null, error: Error): void {
    this.#slot.connected()
    this.#fail(this.#abortedBy ?? error)
  }

  // Refuses a stream that is too large for a free link. This is not the seller's failure, because paid links may have endless
  // streams.
  #tooLarge(): void {
    const most = this.#limits.maxFreeResponseBytes
    this.#abort(
      new ResponseRefused(
        `The seller's response is larger than the ${most} bytes that a free response may have.`,
      ),
    )
  }

  #tooLong(): void {
    this.#abort(new ResponseRefused("The seller's response took longer than a free response may."))
  }

  /** Aborts the call now, even if it still waits for a connection and has no controller. */
  #abort(reason: Error): void {
    if (this.#ended || this.#abortedBy !== null) return
    this.#abortedBy = reason
    if (this.#controller === null) this.#fail(reason)
    else this.#controller.abort(reason)
  }

  #fail(error: Error): void {
    if (this.#ended) return
    this.#end()
    if (this.#headSent) this.#transport.cutOff()
    this.#done(error)
  }

  #end(): void {
    this.#ended = true
    if (this.#deadline !== null) clearTimeout(this.#deadline)
    if (this.#clock !== null) this.#stopClock()
  }

  #stopClock(): void {
    clearTimeout(this.#clock!)
    this.#clock = null
  }

  /** Sends the head of a response that does not arrive as one small piece, and the first half of the wrapper. */
  #begin(): void {
    const { headers, mediaType, contentLength } = this.#head!
    const { settlement } = this.#x
    const purchase = this.#x.purchase ?? this.#note
    if (this.#isFree && !this.#ended)
      this.#clock = setTimeout(() => this.#tooLong(), this.#limits.freeResponseTimeoutMs)
    const note = purchase ?? this.#earlierPurchase
    if (note === null) return this.#writeFreeHead(contentLength)
    // The seller has refused the call, so it costs nothing.
    if (this.#note !== null && !this.#isMetered)
      return this.#writeHead(uncachedHeaders(headers), contentLength, this.#status)
    const kind = wrapKind(note, mediaType, headers, true)
    const paid = paidHeaders(headers, kind, note, settlement?.headersFor(this.#status) ?? [])
    if (kind !== 'splice') return this.#writeHead(paid, contentLength, this.#status)
    const { prefix, suffix } = note.wrap!
    const inner = this.#status === 204 || contentLength === 0 ? jsonNull.length : contentLength
    const length = inner === -1 ? -1 : prefix.length + inner + suffix.length
    this.#writeHead(paid, length, paidStatus(this.#status, kind))
    this.#suffix = suffix
    this.#transport.write(prefix)
  }

  /** The purchase that gives access to a signed-in call. Null if the seller has refused the call, as for a paid call. */
  get #earlierPurchase(): PurchaseNote | null {
    return this.#status < 300 ? (this.#x.signedIn?.purchase ?? null) : null
  }

  #writeFreeHead(contentLength: number): void {
    const { headers } = this.#head!
    // No cache may store the response to a signed-in call, because it would serve other callers.
    const sent = this.#x.signedIn === null ? headers : uncachedHeaders(headers)
    this.#writeHead(sent, contentLength, this.#status)
  }

  /** @param headers names and values in turn. The array belongs to this call, and the response's own headers are appended to it */
  #writeHead(headers: string[], contentLength: number, status: number): void {
    const x = this.#x
    if (contentLength !== -1 && status !== 204) headers.push('Content-Length', String(contentLength))
    if (x.extraHeaders !== null) headers.push(...x.extraHeaders)
    this.#transport.begin(status, headers)
    x.status = status
    this.#headSent = true
  }

  #keep(controller: UpstreamController, chunk: Buffer): void {
    if (this.#bytes > this.#keepBytes) return this.#keepNothing()
    this.#kept!.pushCopy(chunk)
    if (this.#waitsForMemory || this.#held!.grow(this.#bytes)) return
    // If the buyer is still reading, the buyer gets the response anyway. If the buyer has disconnected, the kept response is the
    // only copy of the purchase.
    if (!this.#transport.isClosed) return this.#keepNothing()
    this.#waitsForMemory = true
    controller.pause()
    Promise.resolve(this.#held!.growWithin(this.#bytes, this.#limits.responseTimeoutMs)).then((isHeld) => {
      this.#waitsForMemory = false
      if (isHeld) controller.resume()
      else this.#abort(new BuyerLeft())
    })
  }

  #keepNothing(): void {
    this.#kept = null
    this.#held!.release()
  }

  #offerKept(): void {
    const { headers, mediaType } = this.#head!
    const body = this.#kept!.join()
    this.#x.response = { status: this.#status, headers, mediaType, body, tunnel: null }
  }

  /**
   * Limits how long the buyer may stop reading. The pool's timers do not run meanwhile, so the buyer could keep a connection to the
   * seller indefinitely.
   */
  #watchBuyer(): void {
    if (this.#hasStalled) return
    this.#hasStalled = true
    this.#transport.limitIdle(this.#limits.bodyTimeoutMs)
  }

  /** Runs also while the response is paused, because the pool's connection would otherwise wait for a buyer who is gone. */
  #buyerClosed(): void {
    if (this.#ended || this.#transport.isSent) return
    this.#x.isUnsent = true
    this.pace.rests()
    const { hasLeft, isTruncated } = this.#transport
    if (this.#x.meter !== null && !isTruncated) {
      this.#x.meter.stop(hasLeft ? 'left' : 'broken')
      // The seller is already working. Its response decides whether the call is charged.
      if (hasLeft && this.#controller !== null && this.#head === null) return
    }
    const isSold = this.#x.settlement !== null || (this.#isMetered && isTruncated)
    if (!isSold || this.#kept === null) return this.#abort(new BuyerLeft())
    // The call is charged, now or at the end, so the gateway reads the whole response, for the buyer's repeat.
    this.#clock ??= setTimeout(() => this.#abort(new BuyerLeft()), this.#limits.responseTimeoutMs)
    this.#controller?.resume()
  }
}
