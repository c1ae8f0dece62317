import type { Door } from '../core/plugin/door.ts'
import type { Reply } from '../core/plugin/reply.ts'
import type { LinkAnswer, LinkCall } from '../core/ports/linkCalls.ts'

/**
 * A call without a connection: the request is there whole, and the answer is held until it is whole as well. A caller who
 * stops waiting hangs up, and so does the door itself when an answer has more bytes than are wanted of it.
 */
export class HeldDoor implements Door {
  readonly method: string
  readonly requestId: string
  readonly rawHeaders: readonly string[]
  readonly body = null
  readonly upgrade = null
  isClosed = false
  hasLeft = false
  hasBegun = false
  hasEnded = false
  /** Fulfilled once, with the answer or the wanted part of it; with undefined when there is none. */
  readonly answer: Promise<LinkAnswer | undefined>
  readonly #maxBytes: number
  readonly #pieces: Buffer[] = []
  #bytes = 0
  #status = 0
  #headers: readonly string[] = []
  readonly #settle: (answer: LinkAnswer | undefined) => void
  readonly #closeListeners: (() => void)[] = []

  constructor({
    method,
    requestId,
    headers,
    maxAnswerBytes,
  }: Pick<LinkCall, 'method' | 'requestId' | 'headers' | 'maxAnswerBytes'>) {
    this.method = method
    this.requestId = requestId
    this.rawHeaders = headers
    this.#maxBytes = maxAnswerBytes
    const { promise, resolve } = Promise.withResolvers<LinkAnswer | undefined>()
    this.answer = promise
    this.#settle = resolve
  }

  header(name: string): string | undefined {
    const wanted = name.toLowerCase()
    const values = this.rawHeaders.filter((_, i) => i % 2 === 1 && this.#nameBefore(i) === wanted)
    return values.length === 0 ? undefined : values.join(', ')
  }

  #nameBefore(i: number): string {
    return this.rawHeaders[i - 1]!.toLowerCase()
  }

  get isSent(): boolean {
    return this.hasEnded
  }

  onClose(listener: () => void): void {
    if (!this.isClosed) this.#closeListeners.push(listener)
  }

  /** Nobody is slower than memory. */
  onDrain(listener: () => void): void {
    queueMicrotask(listener)
  }

  send({ status, headers, body }: Reply, extra: readonly string[] | null): boolean {
    if (this.hasBegun || this.isClosed) return false
    this.begin(status, [...headers, ...(extra ?? [])])
    if (typeof body === 'string') this.#take(Buffer.from(body, 'latin1'))
    else if (body instanceof Uint8Array) this.#take(body)
    else for (const piece of body ?? []) this.#take(piece)
    this.end()
    return this.hasEnded
  }

  begin(status: number, headers: readonly string[]): void {
    if (!Number.isInteger(status) || status < 200 || status > 599) throw new Error(`no status: ${status}`)
    this.hasBegun = true
    this.#status = status
    this.#headers = [...headers, 'X-Request-Id', this.requestId]
  }

  write(piece: Uint8Array): boolean {
    this.#take(piece)
    return true
  }

  end(last?: Uint8Array): void {
    if (last !== undefined) this.#take(last)
    if (this.isClosed) return
    this.hasEnded = true
    this.#conclude(this.#held(true))
  }

  cutOff(): void {
    this.#conclude(undefined)
  }

  /** The caller waits no longer. */
  hangUp(): void {
    if (!this.isClosed) this.hasLeft = true
    this.#conclude(undefined)
  }

  limitIdle(): void {}

  #take(piece: Uint8Array): void {
    if (this.isClosed) return
    const room = this.#maxBytes - this.#bytes
    // A copy: the seller's bytes are the caller's to reuse once they are written.
    this.#pieces.push(Buffer.from(piece.subarray(0, room)))
    this.#bytes += Math.min(room, piece.length)
    if (piece.length > room) this.#conclude(this.#held(false))
  }

  #held(isWhole: boolean): LinkAnswer {
    return { status: this.#status, headers: this.#headers, body: Buffer.concat(this.#pieces), isWhole }
  }

  #conclude(answer: LinkAnswer | undefined): void {
    if (this.isClosed) return
    this.isClosed = true
    this.#settle(answer)
    for (const listener of this.#closeListeners.splice(0)) listener()
  }
}
