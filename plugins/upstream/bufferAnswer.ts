import { Pieces } from '../../core/http/pieces.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { UpstreamController, UpstreamHandler } from '../../core/ports/egress.ts'
import { type AnswerHead, answerHead } from './answerHead.ts'
import { AnswerRefused, AnswerTimeout, BuyerLeft } from './failure.ts'

/**
 * Holds a paid answer in memory until it is charged: the buyer must not have it before, and the seller must not lose it.
 * Bounded by `maxBytes` and by a deadline for the whole, because somebody else's API decides how much comes.
 */
export class BufferAnswer implements UpstreamHandler {
  #controller: UpstreamController | null = null
  #head: AnswerHead | null = null
  #body = new Pieces()
  #ended = false
  #abortedBy: Error | null = null
  readonly #x: Exchange
  readonly #maxBytes: number
  readonly #done: (error: Error | null) => void
  readonly #deadline: NodeJS.Timeout

  constructor(x: Exchange, maxBytes: number, timeoutMs: number, done: (error: Error | null) => void) {
    this.#x = x
    this.#maxBytes = maxBytes
    this.#done = done
    this.#deadline = setTimeout(() => this.#abort(new AnswerTimeout()), timeoutMs)
    x.res.once('close', () => {
      if (!this.#ended) this.#abort(new BuyerLeft())
    })
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller
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
    if (this.#head.contentLength > this.#maxBytes) this.#tooLarge()
  }

  onResponseData(_controller: UpstreamController, chunk: Buffer): void {
    if (this.#body.bytes + chunk.length > this.#maxBytes) return this.#tooLarge()
    this.#body.push(chunk)
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
    if (this.#finish()) this.#done(this.#abortedBy ?? error)
  }

  get isWaiting(): boolean {
    return this.#controller === null && !this.#ended
  }

  /** Nothing more to do: the deadline for the whole runs already. */
  waits(): void {}

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
