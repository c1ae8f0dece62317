import { Pieces } from '../../core/http/body.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { UpstreamController, UpstreamHandler } from '../../core/ports/egress.ts'
import type { HeldResponse } from '../../core/ports/responseBuffer.ts'
import {
  BuyerLeft,
  bodyTooSlow,
  OutOfMemory,
  ResponseRefused,
  ResponseTimeout,
  UpstreamBusy,
} from './failure.ts'
import { fittedHead, type ResponseHead, responseHead } from './headers.ts'
import type { Limits } from './options.ts'
import { type Holder, PACE_MS, Pace, type Slot } from './slots.ts'

/**
 * Buffers a paid response until the buyer is charged, because the buyer must not have it earlier. The buffer is limited by
 * `maxBytes`, by the memory that all responses share, and by a deadline, because the seller's API decides how much it sends. While
 * there is no memory, the seller waits.
 */
export class BufferedResponse implements UpstreamHandler, Holder {
  #controller: UpstreamController | null = null
  #head: ResponseHead | null = null
  #body = new Pieces()
  #ended = false
  #abortedBy: Error | null = null
  readonly pace: Pace
  readonly #x: Exchange
  readonly #slot: Slot
  readonly #held: HeldResponse
  readonly #maxBytes: number
  readonly #memoryTimeoutMs: number
  #waitsForMemory = false
  readonly #done: (error: Error | null) => void
  readonly #deadline: NodeJS.Timeout

  constructor(
    x: Exchange,
    slot: Slot,
    held: HeldResponse,
    limits: Limits,
    done: (error: Error | null) => void,
  ) {
    this.#x = x
    this.#slot = slot
    this.#held = held
    this.#memoryTimeoutMs = limits.slotTimeoutMs
    this.#maxBytes = limits.maxResponseBytes
    this.pace = new Pace(limits.slowestBytesPerSecond)
    this.#done = done
    this.#deadline = setTimeout(() => this.#late(), limits.responseTimeoutMs)
    x.transport.onClose(() => {
      if (this.#ended) return
      // The seller already has the request, so the call continues and is charged, and the response is stored for the buyer's
      // repeat.
      if (this.#controller === null || !x.transport.hasLeft) this.#abort(new BuyerLeft())
    })
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller
    this.#slot.connected()
    if (this.#abortedBy !== null) controller.abort(this.#abortedBy)
  }

  onResponseStart(controller: UpstreamController, status: number): void {
    if (status < 200) return
    this.#x.upstreamStatus = status
    this.#head = responseHead(controller.rawHeaders ?? [])
    this.#x.settlementOverrides = this.#head.overrides
    if (status >= 500)
      return this.#abort(new ResponseRefused(`The seller's API failed with status ${status}.`))
    if (status >= 300 && status < 400 && status !== 304) {
      return this.#abort(
        new ResponseRefused("The seller's API redirected, and redirects are not followed with a payment."),
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
      // Bytes that were in flight when the response was paused may still arrive.
      this.#holdUpTo(controller, this.#body.bytes)
    })
  }

  onResponseEnd(): void {
    if (!this.#finish()) return
    if (this.#abortedBy !== null) return this.#done(this.#abortedBy)
    const head = this.#head!
    this.#x.upstreamOutcome = 'answered'
    this.#x.response = {
      status: this.#x.upstreamStatus,
      headers: head.headers,
      mediaType: head.mediaType,
      body: this.#body.join(),
      tunnel: null,
    }
    this.#done(null)
  }

  onResponseError(_controller: UpstreamController | null, error: Error): void {
    this.#slot.connected()
    if (this.#finish()) this.#done(this.#abortedBy ?? error)
  }

  isBehind(nowMs: number): boolean {
    return this.pace.isBehind(nowMs, PACE_MS)
  }

  preempt(): void {
    this.#abort(new UpstreamBusy('Other calls needed the connection.'))
  }

  /** Ends the call at its deadline. It is not the seller's failure if the buyer did not send its body in time. */
  #late(): void {
    this.#abort(this.pace.isUploading ? new BuyerLeft(bodyTooSlow) : new ResponseTimeout())
  }

  #tooLarge(): void {
    this.#abort(
      new ResponseRefused(
        `The seller's response is larger than the ${this.#maxBytes} bytes that are held for a buyer.`,
      ),
    )
  }

  /** Aborts the call now, even if it still waits for a connection and has no controller. */
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
