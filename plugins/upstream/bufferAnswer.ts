import { Pieces } from '../../core/http/pieces.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { HeldAnswer } from '../../core/ports/answerMemory.ts'
import type { UpstreamController, UpstreamHandler } from '../../core/ports/egress.ts'
import { type AnswerHead, answerHead, fittedHead } from './answerHead.ts'
import { AnswerRefused, AnswerTimeout, BuyerLeft, bodyTooSlow, OutOfMemory, UpstreamBusy } from './failure.ts'
import type { Limits } from './limits.ts'
import { PACE_MS, Pace } from './pace.ts'
import type { Holder, Place } from './places.ts'

/**
 * Holds a paid answer in memory until it is charged: the buyer must not have it before, and the seller must not lose it.
 * Bounded by `maxBytes`, by the memory that all answers share, and by a deadline for the whole, because somebody else's API
 * decides how much comes. The seller waits while there is no memory.
 */
export class BufferAnswer implements UpstreamHandler, Holder {
  #controller: UpstreamController | null = null
  #head: AnswerHead | null = null
  #body = new Pieces()
  #ended = false
  #abortedBy: Error | null = null
  readonly pace: Pace
  readonly #x: Exchange
  readonly #place: Place
  readonly #held: HeldAnswer
  readonly #maxBytes: number
  readonly #memoryTimeoutMs: number
  #waitsForMemory = false
  readonly #done: (error: Error | null) => void
  readonly #deadline: NodeJS.Timeout

  constructor(
    x: Exchange,
    place: Place,
    held: HeldAnswer,
    limits: Limits,
    done: (error: Error | null) => void,
  ) {
    this.#x = x
    this.#place = place
    this.#held = held
    this.#memoryTimeoutMs = limits.placeTimeoutMs
    this.#maxBytes = limits.maxAnswerBytes
    this.pace = new Pace(limits.slowestBytesPerSecond)
    this.#done = done
    this.#deadline = setTimeout(() => this.#late(), limits.answerTimeoutMs)
    x.door.onClose(() => {
      if (this.#ended) return
      // Once the seller has the request, its work is finished and charged, and the answer is kept for the buyer's repeat.
      if (this.#controller === null || !x.door.hasLeft) this.#abort(new BuyerLeft())
    })
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller
    this.#place.connected()
    if (this.#abortedBy !== null) controller.abort(this.#abortedBy)
  }

  onResponseStart(controller: UpstreamController, status: number): void {
    if (status < 200) return
    this.#x.upstreamStatus = status
    this.#head = answerHead(controller.rawHeaders ?? [])
    if (status >= 500) return this.#abort(new AnswerRefused(`The seller's API failed with status ${status}.`))
    if (status >= 300 && status < 400 && status !== 304) {
      return this.#abort(
        new AnswerRefused("The seller's API redirected; redirects are not followed with a payment."),
      )
    }
    try {
      fittedHead(this.#head.headers, this.#x)
    } catch (error) {
      return this.#abort(error as Error)
    }
    if (this.#head.contentLength > this.#maxBytes) this.#tooLarge()
    else this.#holdUpTo(controller, this.#head.contentLength)
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    if (this.#body.bytes + chunk.length > this.#maxBytes) return this.#tooLarge()
    this.#body.pushCopy(chunk)
    this.#holdUpTo(controller, this.#body.bytes)
  }

  #holdUpTo(controller: UpstreamController, bytes: number): void {
    if (this.#waitsForMemory) return
    const isHeld = this.#held.growWithin(bytes, this.#memoryTimeoutMs)
    if (!(isHeld instanceof Promise)) return
    this.#waitsForMemory = true
    controller.pause()
    isHeld.then((isHeldNow) => {
      this.#waitsForMemory = false
      if (this.#ended) return
      if (!isHeldNow) return this.#abort(new OutOfMemory())
      controller.resume()
      // What was on its way already when it was paused.
      this.#holdUpTo(controller, this.#body.bytes)
    })
  }

  onResponseEnd(): void {
    if (!this.#finish()) return
    if (this.#abortedBy !== null) return this.#done(this.#abortedBy)
    const head = this.#head!
    this.#x.upstreamOutcome = 'answered'
    this.#x.answer = {
      status: this.#x.upstreamStatus,
      headers: head.headers,
      mediaType: head.mediaType,
      body: this.#body.join(),
      tunnel: null,
    }
    this.#done(null)
  }

  onResponseError(_controller: UpstreamController | null, error: Error): void {
    this.#place.connected()
    if (this.#finish()) this.#done(this.#abortedBy ?? error)
  }

  isBehind(nowMs: number): boolean {
    return this.pace.isBehind(nowMs, PACE_MS)
  }

  giveWay(): void {
    this.#abort(new UpstreamBusy('Other calls needed the connection.'))
  }

  /** A body that its buyer did not send in time says nothing about the seller. */
  #late(): void {
    this.#abort(this.pace.isUploading ? new BuyerLeft(bodyTooSlow) : new AnswerTimeout())
  }

  #tooLarge(): void {
    this.#abort(
      new AnswerRefused(
        `The seller's answer is larger than the ${this.#maxBytes} bytes that are held for a buyer.`,
      ),
    )
  }

  /** Breaks off now, also while the request still waits for a connection and has no controller. */
  #abort(reason: Error): void {
    if (this.#ended || this.#abortedBy !== null) return
    this.#abortedBy = reason
    this.#body = new Pieces()
    if (this.#controller !== null) return this.#controller.abort(reason)
    if (this.#finish()) this.#done(reason)
  }

  #finish(): boolean {
    if (this.#ended) return false
    this.#ended = true
    clearTimeout(this.#deadline)
    return true
  }
}
