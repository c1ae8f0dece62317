import { Pieces } from '../../core/http/pieces.ts'
import { jsonNull, paidHeaders, paidStatus, wrapKind } from '../../core/payments/paidReply.ts'
import type { Door } from '../../core/plugin/door.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { HeldAnswer } from '../../core/ports/answerMemory.ts'
import type { UpstreamController, UpstreamHandler } from '../../core/ports/egress.ts'
import { type AnswerHead, answerHead, fittedHead } from './answerHead.ts'
import { AnswerRefused, AnswerTimeout, BuyerLeft, UpstreamBusy } from './failure.ts'
import type { Limits } from './limits.ts'
import { PACE_MS, Pace } from './pace.ts'
import type { Holder, Place } from './places.ts'

/** Up to here a body that came in one piece goes out in one write with its head. */
const SMALL_BYTES = 16_384

/**
 * Hands a seller's answer to the buyer as it comes, with pressure going both ways: free calls, and calls that were
 * charged first. A paid JSON answer is wrapped on the way by writing the wrapper's halves around it.
 *
 * One object per call, passed to the pool as its handler: no closures, no header objects (bench/free.ts).
 */
export class StreamAnswer implements UpstreamHandler, Holder {
  #controller: UpstreamController | null = null
  #head: AnswerHead | null = null
  #status = 0
  #ended = false
  #headSent = false
  #hasBody = false
  #hasStalled = false
  #suffix: Uint8Array | null = null
  #bytes = 0
  /** What the buyer has to take before more is asked for; 0 while there is nothing to wait for. */
  #waitedFor = 0
  /** Pieces of a charged answer, kept for a repeated call while they are few enough. */
  #kept: Pieces | null
  /** The memory that they take; null on free links. */
  readonly #held: HeldAnswer | null
  #waitsForMemory = false
  /**
   * Runs only where the pool's own clocks don't: between interim answers, without a buyer, and over the whole of a free
   * answer that streams on.
   */
  #clock: NodeJS.Timeout | null = null
  #abortedBy: Error | null = null
  readonly #x: Exchange
  readonly #place: Place
  readonly #door: Door
  readonly #keepBytes: number
  readonly #limits: Limits
  readonly pace: Pace
  readonly #done: (error: Error | null) => void

  /**
   * @param held where what is kept takes its memory; null on free links
   * @param keepBytes how much of a charged answer is kept for a repeated call; 0 on free links
   * @param done called once: null when the answer was written to its end. After an error whose head was not sent the
   *   caller answers; otherwise the buyer's connection was broken off, so that a cut answer can't pass for a whole one.
   */
  constructor(
    x: Exchange,
    place: Place,
    held: HeldAnswer | null,
    keepBytes: number,
    limits: Limits,
    done: (error: Error | null) => void,
  ) {
    this.#x = x
    this.#place = place
    this.#held = held
    this.#door = x.door
    this.#keepBytes = keepBytes
    this.#limits = limits
    this.pace = new Pace(limits.slowestBytesPerSecond)
    this.#kept = keepBytes > 0 ? new Pieces() : null
    this.#done = done
    x.door.onClose(() => this.#buyerClosed())
  }

  get #isFree(): boolean {
    return this.#keepBytes === 0
  }

  get headSent(): boolean {
    return this.#headSent
  }

  /** Who paid for an answer that can't be kept gets as much time as one who stands still. */
  isBehind(nowMs: number): boolean {
    const mayComeBack = this.#isFree || this.#kept !== null
    return this.pace.isBehind(nowMs, mayComeBack ? PACE_MS : this.#limits.bodyTimeoutMs)
  }

  giveWay(): void {
    // Charged: as if its reader had left.
    if (this.#x.settlement !== null) return this.#door.cutOff()
    const needed = 'Other calls needed the connection.'
    this.#abort(this.#headSent ? new BuyerLeft(needed) : new UpstreamBusy(needed))
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller
    this.#place.connected()
    if (this.#abortedBy !== null) return controller.abort(this.#abortedBy)
    if (this.#door.isClosed) this.#buyerClosed()
  }

  onResponseStart(controller: UpstreamController, status: number): void {
    if (status < 200) {
      // Each interim answer restarts the pool's clock, so that a flood of them would never end.
      this.#clock ??= setTimeout(() => this.#abort(new AnswerTimeout()), this.#limits.headersTimeoutMs)
      return
    }
    if (this.#clock !== null && !this.#door.isClosed) this.#stopClock()
    this.#x.upstreamStatus = status
    this.#status = status
    this.#head = answerHead(controller.rawHeaders ?? [])
    if (this.#isFree) {
      const isMore = this.#head.contentLength > this.#limits.maxFreeAnswerBytes
      if (isMore && status !== 304 && this.#x.method !== 'HEAD') this.#tooLarge()
      return
    }
    if (status >= 500) this.#abort(new AnswerRefused(`The seller's API failed with status ${status}.`))
    else if (status >= 300 && status < 400 && status !== 304)
      this.#abort(new AnswerRefused("The seller's API redirected."))
    else this.#fit()
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
    const door = this.#door
    this.#hasBody = true
    this.#bytes += chunk.length
    if (this.#isFree) {
      if (this.#bytes > this.#limits.maxFreeAnswerBytes) return this.#tooLarge()
    } else if (this.#kept !== null) this.#keep(controller, chunk)
    if (door.isClosed) {
      if (this.#kept === null) this.#abort(new BuyerLeft())
      return
    }
    if (!this.#headSent) {
      const isWhole = this.#head!.contentLength === chunk.length && chunk.length <= SMALL_BYTES
      if (isWhole && this.#x.purchase === null) {
        this.#writeFreeHead(chunk.length)
        door.end(chunk)
        return
      }
      this.#begin()
    }
    if (door.write(chunk)) return
    this.#waitedFor += chunk.length
    // What was read of TLS comes to its end, record by record, also behind a pause.
    if (this.#waitedFor > chunk.length) return
    controller.pause()
    this.#watchBuyer()
    this.pace.waits()
    door.onDrain(() => {
      this.pace.moved(this.#waitedFor)
      this.#waitedFor = 0
      controller.resume()
    })
  }

  onResponseEnd(): void {
    if (this.#ended) return
    this.#end()
    const door = this.#door
    if (!door.hasEnded && !door.isClosed) {
      if (!this.#headSent) this.#begin()
      if (this.#suffix === null) door.end()
      else door.end(this.#hasBody ? this.#suffix : Buffer.concat([jsonNull, this.#suffix]))
    }
    this.#x.upstreamOutcome = 'answered'
    if (this.#kept !== null) this.#offerKept()
    this.#done(null)
  }

  onResponseError(_controller: UpstreamController | null, error: Error): void {
    this.#place.connected()
    this.#fail(this.#abortedBy ?? error)
  }

  // Refused, and no failure of the seller's: a stream without an end is a fine thing to offer, just not for nothing.
  #tooLarge(): void {
    const most = this.#limits.maxFreeAnswerBytes
    this.#abort(
      new AnswerRefused(`The seller's answer is larger than the ${most} bytes that a free one may have.`),
    )
  }

  #tooLong(): void {
    this.#abort(new AnswerRefused("The seller's answer took longer than a free one may."))
  }

  /** Breaks off now, also while the request still waits for a connection and has no controller. */
  #abort(reason: Error): void {
    if (this.#ended || this.#abortedBy !== null) return
    this.#abortedBy = reason
    if (this.#controller === null) this.#fail(reason)
    else this.#controller.abort(reason)
  }

  #fail(error: Error): void {
    if (this.#ended) return
    this.#end()
    if (this.#headSent) this.#door.cutOff()
    this.#done(error)
  }

  #end(): void {
    this.#ended = true
    if (this.#clock !== null) this.#stopClock()
  }

  #stopClock(): void {
    clearTimeout(this.#clock!)
    this.#clock = null
  }

  /** Sends the head of an answer that does not come in one small piece, and the first half of the wrapper. */
  #begin(): void {
    const { headers, mediaType, contentLength } = this.#head!
    const { purchase, settlement } = this.#x
    if (this.#isFree && !this.#ended)
      this.#clock = setTimeout(() => this.#tooLong(), this.#limits.freeAnswerTimeoutMs)
    if (purchase === null) return this.#writeFreeHead(contentLength)
    const kind = wrapKind(purchase, mediaType, headers, true)
    const paid = paidHeaders(headers, kind, purchase, settlement?.headers ?? [])
    if (kind !== 'splice') return this.#writeHead(paid, contentLength, this.#status)
    const { prefix, suffix } = purchase.wrap!
    const inner = this.#status === 204 || contentLength === 0 ? jsonNull.length : contentLength
    const length = inner === -1 ? -1 : prefix.length + inner + suffix.length
    this.#writeHead(paid, length, paidStatus(this.#status, kind))
    this.#suffix = suffix
    this.#door.write(prefix)
  }

  #writeFreeHead(contentLength: number): void {
    this.#writeHead(this.#head!.headers, contentLength, this.#status)
  }

  /** @param headers flat, and this call's own: what belongs to the answer is added to them */
  #writeHead(headers: string[], contentLength: number, status: number): void {
    const x = this.#x
    if (contentLength !== -1 && status !== 204) headers.push('Content-Length', String(contentLength))
    if (x.extraHeaders !== null) headers.push(...x.extraHeaders)
    this.#door.begin(status, headers)
    x.status = status
    this.#headSent = true
  }

  #keep(controller: UpstreamController, chunk: Buffer): void {
    if (this.#bytes > this.#keepBytes) return this.#keepNothing()
    this.#kept!.pushCopy(chunk)
    if (this.#waitsForMemory || this.#held!.grow(this.#bytes)) return
    // Whoever reads on has it anyway; for whoever left, it is all there is of what was bought.
    if (!this.#door.isClosed) return this.#keepNothing()
    this.#waitsForMemory = true
    controller.pause()
    Promise.resolve(this.#held!.growWithin(this.#bytes, this.#limits.answerTimeoutMs)).then((isHeld) => {
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
    this.#x.answer = { status: this.#status, headers, mediaType, body, tunnel: null }
  }

  /** A buyer who stops reading would hold a connection to the seller for good: the pool's clocks stand still meanwhile. */
  #watchBuyer(): void {
    if (this.#hasStalled) return
    this.#hasStalled = true
    this.#door.limitIdle(this.#limits.bodyTimeoutMs)
  }

  /** Also while paused: without this the pool's connection would wait for a buyer who never drains. */
  #buyerClosed(): void {
    if (this.#ended || this.#door.isSent) return
    this.#x.isUnsent = true
    this.pace.rests()
    if (this.#x.settlement === null || this.#kept === null) return this.#abort(new BuyerLeft())
    // Charged: the answer is fetched to its end, for when the buyer asks again.
    this.#clock ??= setTimeout(() => this.#abort(new BuyerLeft()), this.#limits.answerTimeoutMs)
    this.#controller?.resume()
  }
}
