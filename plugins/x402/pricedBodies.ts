import { TollgateError } from '../../core/errors/error.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { HeldResponse, ResponseBuffer } from '../../core/ports/responseBuffer.ts'

/** How long a body may take to arrive while other calls wait for its memory, in ms. */
const MAX_ARRIVAL_MS = 2_000

interface Arriving {
  readonly x: Exchange
  readonly held: HeldResponse
  readonly sinceMs: number
}

/**
 * Reads bodies on which a price depends. Their callers have not paid yet, so all such bodies share a limited memory until their price
 * is known. If this memory is full, the gateway disconnects callers that send their bodies slowly.
 */
export class PricedBodies {
  readonly #memory: Pick<ResponseBuffer, 'open'>
  readonly #clock: Clock
  /** Bodies that are still arriving, oldest first. */
  readonly #arriving = new Set<Arriving>()

  constructor(memory: Pick<ResponseBuffer, 'open'>, clock: Clock) {
    this.#memory = memory
    this.#clock = clock
  }

  /**
   * Reads the body of a call if it has at most `maxBytes` and a stated length, like {@link Exchange.readBody}.
   *
   * @param pay runs after that. The body holds its memory until `pay` has ended
   * @throws `upstream_busy` if the memory is full
   */
  read<T>(x: Exchange, maxBytes: number, pay: () => T | Promise<T>): T | Promise<T> {
    const bytes = Number(x.header('content-length'))
    // NaN if the request does not state the length of its body.
    const isHeld = x.body === null && bytes <= maxBytes
    const held = isHeld ? this.#hold(bytes) : undefined
    const reading = x.readBody(maxBytes)
    if (reading === null) {
      held?.release()
      return pay()
    }
    if (held === undefined) return reading.then(pay)
    const arriving = { x, held, sinceMs: this.#clock.now() }
    this.#arriving.add(arriving)
    return reading
      .finally(() => this.#arriving.delete(arriving))
      .then(pay)
      .finally(() => held.release())
  }

  #hold(bytes: number): HeldResponse {
    const held = this.#memory.open('x402')
    if (held.grow(bytes)) return held
    const nowMs = this.#clock.now()
    for (const slow of this.#arriving) {
      if (nowMs - slow.sinceMs < MAX_ARRIVAL_MS) break
      this.#arriving.delete(slow)
      slow.x.transport.cutOff()
      slow.held.release()
      if (held.grow(bytes)) return held
    }
    throw new TollgateError(
      'upstream_busy',
      'The gateway has no free memory for the body of this request, on which the price depends. You were not charged.',
      { retryAfterSeconds: 1 },
    )
  }
}
