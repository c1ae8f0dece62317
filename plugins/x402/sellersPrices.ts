import { hash, randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { PriceQuery } from '../../core/domain/pricing.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { LOOP_HEADER, PRICE_PARAMETER } from '../../core/http/loopMark.ts'
import { signatureHeaders } from '../../core/http/signature.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Egress } from '../../core/ports/egress.ts'
import type { Log } from '../../core/ports/log.ts'
import {
  MAX_PRICE_RESPONSE_BYTES,
  readStatedPrice,
  type StatedPrice,
} from '../../core/pricing/statedPrice.ts'

/** How long the gateway waits for the response of a price server, in ms. The buyer waits for the same time. */
const PRICE_TIMEOUT_MS = 2_000
/** Maximum number of concurrent requests to the price server of a link, because callers could flood the server. */
const MAX_AT_ONCE = 16
/** Maximum number of requests of all links whose prices are kept in memory, at about half a kilobyte each. */
const MAX_REMEMBERED = 10_000
/** Minimum time between two warnings about the same link, in ms, because each call could cause a warning. */
const WARN_EVERY_MS = 60_000
/** Maximum number of prices of a request that buyers may pay at the same time. */
const MAX_STATED = 4

/** A price of a request that the gateway has offered to buyers. Buyers may pay it until `untilMs`. */
interface OfferedPrice {
  readonly price: string
  readonly untilMs: number
}

interface Remembered {
  /** The offered prices, newest first. */
  readonly offered: readonly OfferedPrice[]
  /** Until when the gateway also offers the newest price to other buyers, without another request to the price server. */
  readonly freshUntilMs: number
}

interface Deps {
  readonly egress: Pick<Egress, 'request' | 'failureOf'>
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
  /** How long a buyer may pay an offered price, in ms. */
  readonly honoredMs: number
}

/**
 * The prices that sellers' price servers state. A buyer may pay the price of a 402 until a payment for this 402 can no longer be valid.
 * Prices are kept in the memory of this process, which is limited. If the price of a payment is not in memory, the gateway requests
 * the current price.
 */
export class SellersPrices {
  readonly #deps: Deps
  readonly #remembered = new LRUCache<string, Remembered>({ max: MAX_REMEMBERED })

  constructor(deps: Deps) {
    this.#deps = deps
  }

  ofLink(link: PricedLink): LinkPrices {
    return new LinkPrices(this.#deps, this.#remembered, link)
  }
}

/** A version of a link whose prices a price server states. */
export interface PricedLink {
  readonly id: string
  readonly version: number
  readonly query: PriceQuery
  /** The key that signs the requests. */
  readonly key: Uint8Array
  /** The mark by which the gateway refuses a price server that calls the same link. See {@link LoopMarks}. */
  readonly loopMark: string
}

/** The prices of a version of a link. */
export class LinkPrices {
  readonly #deps: Deps
  readonly #remembered: LRUCache<string, Remembered>
  readonly #link: PricedLink
  /** Running requests, by facts. Calls with the same facts share a request. */
  readonly #requests = new Map<string, Promise<string>>()
  #warnedAtMs = Number.NEGATIVE_INFINITY

  constructor(deps: Deps, remembered: LRUCache<string, Remembered>, link: PricedLink) {
    this.#deps = deps
    this.#remembered = remembered
    this.#link = link
  }

  /**
   * A short key for the facts of a request. Calls that wait for a price keep only this key in memory, because the facts can have
   * several times the size of the body.
   *
   * @param facts the facts of the request as JSON
   */
  keyOf(facts: string): string {
    const { id, version } = this.#link
    return hash('sha256', `${id} ${version} ${facts}`, 'base64')
  }

  /** The prices of this request that the gateway has offered and that buyers may still pay, newest first. */
  offeredFor(key: string): readonly string[] {
    const nowMs = this.#deps.clock.now()
    const found = this.#remembered.get(key)
    return (found?.offered ?? []).filter(({ untilMs }) => untilMs > nowMs).map(({ price }) => price)
  }

  /**
   * The current price of a request. Buyers may pay it for the next {@link Deps.honoredMs}.
   *
   * @param factsOf returns the facts of the request as JSON
   * @throws `price_unavailable` if the price server states no valid price and the link has no fallback
   */
  priceFor(key: string, factsOf: () => string): string | Promise<string> {
    const found = this.#remembered.get(key)
    if (found !== undefined && found.freshUntilMs > this.#deps.clock.now())
      return this.#offer(key, found.offered[0]!.price, found.freshUntilMs)
    const running = this.#requests.get(key)
    if (running !== undefined) return running
    if (this.#requests.size >= MAX_AT_ONCE)
      throw unavailable("The gateway has too many requests to the seller's price server.", 1)
    const request = this.#query(key, factsOf()).finally(() => this.#requests.delete(key))
    this.#requests.set(key, request)
    return request
  }

  async #query(key: string, facts: string): Promise<string> {
    const stated = await this.#request(facts)
    if (typeof stated !== 'string')
      return this.#offer(key, stated.price, this.#deps.clock.now() + stated.freshMs)
    this.#warn(stated)
    const { fallback } = this.#link.query
    if (fallback === null) throw unavailable("The seller's server has stated no price for this request.", 5)
    return this.#offer(key, fallback, 0)
  }

  #warn(reason: string): void {
    const { clock, log } = this.#deps
    if (clock.now() - this.#warnedAtMs < WARN_EVERY_MS) return
    this.#warnedAtMs = clock.now()
    log.warn(
      { event: 'price_not_stated', linkId: this.#link.id, reason },
      "a seller's price server has stated no valid price",
    )
  }

  /** Sends a request to the price server. @returns the price, or the reason why there is none */
  async #request(facts: string): Promise<StatedPrice | string> {
    const { egress, clock } = this.#deps
    const { query, key, loopMark } = this.#link
    const { url, max } = query
    try {
      const response = await egress.request({
        url,
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          [LOOP_HEADER]: loopMark + PRICE_PARAMETER,
          ...signatureHeaders([key], { id: randomUUID(), body: facts, nowMs: clock.now() }),
        },
        body: facts,
        timeoutMs: PRICE_TIMEOUT_MS,
        maxBytes: MAX_PRICE_RESPONSE_BYTES,
      })
      return readStatedPrice(response, max)
    } catch (error) {
      return isTollgateError(error) ? error.code : egress.failureOf(error)
    }
  }

  #offer(key: string, price: string, freshUntilMs: number): string {
    const nowMs = this.#deps.clock.now()
    const others = (this.#remembered.get(key)?.offered ?? []).filter(
      (one) => one.price !== price && one.untilMs > nowMs,
    )
    const offered = [{ price, untilMs: nowMs + this.#deps.honoredMs }, ...others].slice(0, MAX_STATED)
    this.#remembered.set(key, { offered, freshUntilMs })
    return price
  }
}

const unavailable = (why: string, retryAfterSeconds: number): TollgateError =>
  new TollgateError('price_unavailable', `${why} You were not charged. Try again later.`, {
    retryAfterSeconds,
  })
