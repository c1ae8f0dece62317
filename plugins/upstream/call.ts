import { isStreamed } from '../../core/domain/link.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import { uncachedHeaders } from '../../core/payments/paidReply.ts'
import type { PurchaseNote } from '../../core/payments/purchase.ts'
import { type Exchange, handled, type Reply } from '../../core/plugin/gateway.ts'
import type { OwnSlot } from '../../core/plugin/slots.ts'
import type { Egress, UpstreamHandler } from '../../core/ports/egress.ts'
import type { HeldResponse, ResponseBuffer } from '../../core/ports/responseBuffer.ts'
import { BufferedResponse } from './bufferedResponse.ts'
import { BuyerLeft, bodyTooSlow, LeftUnasked, OutOfMemory, UpstreamBusy, upstreamFailure } from './failure.ts'
import type { IgnoredOverrides } from './ignoredOverrides.ts'
import type { Limits } from './options.ts'
import {
  type AddedHeaders,
  pathOf,
  type RequestBody,
  readSmallBody,
  requestBody,
  requestHead,
  type Target,
} from './request.ts'
import type { Holder, Origin, Pace, Slot, StoreCalls } from './slots.ts'
import { StreamedResponse } from './streamedResponse.ts'
import { TunnelResponse } from './tunnel.ts'

/** The address to which one link's calls go, and the headers that are added to them. */
export interface Destination {
  readonly target: Target
  readonly added: AddedHeaders
  readonly origin: Origin
  /** The calls of the link's store at the origin. */
  readonly calls: StoreCalls
}

/**
 * Memory that a call reserves before it is charged, in bytes. A call that is charged last reserves `FIRST_BYTES`, and more as the
 * response arrives. A call that is charged first reserves `FIRST_KEPT_BYTES`, so that at least this much of its response is stored.
 */
const FIRST_BYTES = 65_536
const INITIAL_BUFFER_BYTES = 262_144

/** A response that is arriving. */
interface Answer extends UpstreamHandler, Holder {
  readonly pace: Pace
}

export interface CallsDeps {
  readonly limits: Limits
  readonly egress: Egress
  readonly memory: ResponseBuffer
  readonly ignoredOverrides: IgnoredOverrides
  /** Slots of calls that are to be charged. Other calls have a slot only while their request is at the seller. */
  readonly reserved: OwnSlot<Slot | null>
  /** Memory of calls that are to be charged. Other calls reserve none. */
  readonly held: OwnSlot<HeldResponse | null>
}

/** The three ways to call a seller's API: streaming the response, holding it until the buyer is charged, or opening a tunnel. */
export class Calls {
  readonly #deps: CallsDeps

  constructor(deps: CallsDeps) {
    this.#deps = deps
  }

  /**
   * Reserves memory for the response and a slot at the seller, before the call is charged. Waits if necessary. The caller must call
   * {@link release} at the end of the call.
   *
   * @throws `upstream_busy` if memory or slot does not become free in time
   */
  reserve(x: Exchange, to: Destination): void | Promise<void> {
    // An upgrade needs no memory, because its response has no body.
    return x.upgrade === null ? this.#takeMemory(x, to) : this.#reserveSlot(x, to)
  }

  /** Forwards the response as it arrives. @param keepBytes how many bytes to store for a repeat, see {@link StreamedResponse} */
  stream(x: Exchange, to: Destination, keepBytes: number): Promise<Reply> {
    return this.#onSlot(x, to, (slot) => this.#stream(x, to, keepBytes, slot))
  }

  /** Holds the response until the buyer is charged. Returns a response that costs nothing as the reply at once. */
  hold(x: Exchange, to: Destination): Promise<Reply | undefined> {
    return this.#onSlot(x, to, (slot) => this.#hold(x, to, slot))
  }

  /**
   * Forwards the response as it arrives, and counts it with the call's meter, so that the buyer can be charged at its end. A call
   * that costs nothing ends here.
   *
   * @param note the ids that the response gets before the purchase is recorded
   */
  meter(x: Exchange, to: Destination, note: PurchaseNote): Promise<Reply | undefined> {
    return this.#onSlot(x, to, (slot) => this.#meter(x, to, slot, note))
  }

  /** Opens a tunnel. */
  connect(x: Exchange, to: Destination): Promise<undefined> {
    return this.#onSlot(x, to, (slot) => this.#connect(x, to, slot))
  }

  /** Releases the slot, unless a tunnel uses it. Releases the memory when the response is sent. */
  release(x: Exchange): void {
    const { reserved, held, limits } = this.#deps
    const slot = reserved.get(x)
    if (slot !== null && slot.state !== 'tunnel') slot.release()
    const response = held.get(x)
    if (response === null) return
    // The memory stays reserved until the caller has read the response or has disconnected.
    if (x.response === null || x.transport.isClosed) return response.release()
    x.transport.onClose(() => response.release())
    // This applies to small responses too, because many of them use as much memory, and a buyer may pay for each and read none.
    response.leaves(() => x.transport.cutOff())
    if (response.bytes > FIRST_BYTES) x.transport.limitIdle(limits.bodyTimeoutMs)
  }

  #failure(x: Exchange, error: Error) {
    return upstreamFailure(x, error, this.#deps.egress)
  }

  #takeMemory(x: Exchange, to: Destination): void | Promise<void> {
    const { memory, held, limits } = this.#deps
    const response = memory.open(x.link.storeId)
    held.set(x, response)
    const first = isStreamed(x.link) ? INITIAL_BUFFER_BYTES : FIRST_BYTES
    const isHeld = response.growWithin(Math.min(first, limits.maxResponseBytes), limits.slotTimeoutMs)
    if (isHeld === true) return this.#reserveSlot(x, to)
    let isWaiting = true
    x.transport.onClose(() => {
      if (isWaiting && isInVain(x)) response.release()
    })
    return Promise.resolve(isHeld).then((isHeldNow) => {
      isWaiting = false
      if (!isHeldNow) throw this.#failure(x, isInVain(x) ? leftBy(x) : new OutOfMemory())
      return this.#reserveSlot(x, to)
    })
  }

  #reserveSlot(x: Exchange, to: Destination): void | Promise<void> {
    const { reserved } = this.#deps
    const slot = this.#takeSlot(x, to, true)
    if (!(slot instanceof Promise)) return void reserved.set(x, slot)
    return slot.then((late) => {
      if (x.isOver) late.release()
      else reserved.set(x, late)
    })
  }

  #takeSlot(x: Exchange, { origin, calls }: Destination, isPaid: boolean): Slot | Promise<Slot> {
    const { limits } = this.#deps
    if (isInVain(x)) throw this.#failure(x, leftBy(x))
    if (calls.open >= limits.maxCallsPerOrigin) throw this.#failure(x, new UpstreamBusy())
    const slot = origin.begin(calls, isPaid, limits.freeTurnMs)
    return slot.state === 'held' ? slot : this.#waitFor(x, slot)
  }

  #waitFor(x: Exchange, slot: Slot): Promise<Slot> {
    return new Promise((resolve, reject) => {
      const giveUp = (error: Error) => {
        clearTimeout(timer)
        slot.release()
        reject(this.#failure(x, error))
      }
      const timer = setTimeout(() => giveUp(new UpstreamBusy()), this.#deps.limits.slotTimeoutMs)
      x.transport.onClose(() => {
        if (slot.state === 'waiting' && isInVain(x)) giveUp(leftBy(x))
      })
      slot.granted = () => {
        clearTimeout(timer)
        resolve(slot)
      }
    })
  }

  /** Runs a call on the slot that it has reserved, or on a slot that it takes now. */
  #onSlot<R>(x: Exchange, to: Destination, call: (slot: Slot) => Promise<R>): Promise<R> {
    const kept = this.#deps.reserved.get(x)
    if (kept !== null) return call(kept)
    const reading = readSmallBody(x)
    if (reading !== null) return reading.then(() => this.#onSlot(x, to, call))
    const slot = this.#takeSlot(x, to, false)
    return slot instanceof Promise ? slot.then(call) : call(slot)
  }

  #stream(x: Exchange, to: Destination, keepBytes: number, slot: Slot): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const { held, limits } = this.#deps
      const sinceMs = performance.now()
      const response = new StreamedResponse(x, slot, held.get(x), keepBytes, limits, (error) => {
        this.#ended(x, sinceMs, slot)
        if (error === null) return resolve(handled)
        const failed = this.#failure(x, this.#causeOf(x, error, response.pace))
        if (response.headSent) x.errorCode = failed.code
        if (response.headSent || x.transport.isClosed) return resolve(handled)
        reject(failed)
      })
      this.#dispatch(x, to, slot, response, keepBytes > 0)
    })
  }

  #meter(x: Exchange, to: Destination, slot: Slot, note: PurchaseNote): Promise<Reply | undefined> {
    return new Promise((resolve, reject) => {
      const { held, limits } = this.#deps
      const sinceMs = performance.now()
      const keepBytes = limits.maxResponseBytes
      const response = new StreamedResponse(
        x,
        slot,
        held.get(x),
        keepBytes,
        limits,
        (error) => {
          this.#ended(x, sinceMs, slot)
          if (error === null) return resolve(response.isMetered ? undefined : handled)
          const cause = this.#causeOf(x, error, response.pace)
          x.meter!.stop(isCallers(cause) ? 'left' : 'broken')
          const failed = this.#failure(x, cause)
          if (response.headSent || response.isMetered) x.errorCode = failed.code
          if (response.isMetered) return resolve(undefined)
          if (response.headSent || x.transport.isClosed) return resolve(handled)
          reject(failed)
        },
        note,
      )
      this.#dispatch(x, to, slot, response, true)
    })
  }

  #hold(x: Exchange, to: Destination, slot: Slot): Promise<Reply | undefined> {
    return new Promise((resolve, reject) => {
      const { held, limits } = this.#deps
      const sinceMs = performance.now()
      const response = new BufferedResponse(x, slot, held.get(x)!, limits, (error) => {
        this.#ended(x, sinceMs, slot)
        if (error === null) resolve(unlessCharged(x))
        else reject(this.#failure(x, this.#causeOf(x, error, response.pace)))
      })
      this.#dispatch(x, to, slot, response, true)
    })
  }

  #ended(x: Exchange, sinceMs: number, slot: Slot): void {
    x.sellerMs = performance.now() - sinceMs
    slot.release()
    if (x.settlementOverrides !== null) this.#deps.ignoredOverrides.note(x)
  }

  #connect(x: Exchange, to: Destination, slot: Slot): Promise<undefined> {
    return new Promise((resolve, reject) => {
      const sinceMs = performance.now()
      const response = new TunnelResponse(x, slot, this.#deps.limits, (error) => {
        x.sellerMs = performance.now() - sinceMs
        if (error === null) {
          // The tunnel outlives the call, and counts as a call of its store until it closes.
          slot.becomeTunnel()
          x.response!.tunnel!.once('close', () => slot.release())
          return resolve(undefined)
        }
        slot.release()
        reject(this.#failure(x, error))
      })
      this.#dispatch(x, to, slot, response, false)
    })
  }

  #dispatch(x: Exchange, to: Destination, slot: Slot, response: Answer, isBuffered: boolean): void {
    const { limits } = this.#deps
    slot.isCharged = x.settlement !== null
    slot.holder = response
    const { target, added, origin } = to
    try {
      if (isInVain(x)) throw leftBy(x)
      const body = x.upgrade === null ? requestBody(x, limits.maxRequestBytes, response.pace) : null
      const request = {
        path: pathOf(target, x.subPath, x.query),
        method: x.method,
        headers: requestHead(x, added, isBuffered),
        body,
        headersTimeout: limits.headersTimeoutMs,
        bodyTimeout: limits.bodyTimeoutMs,
        ...(mayBeMisread(x.method, body) && { reset: true }),
        ...(x.upgrade !== null && { upgrade: x.header('upgrade')! }),
      }
      slot.connects()
      origin.pool.dispatch(request, response)
    } catch (error) {
      response.onResponseError(null, error as Error)
    }
  }

  /**
   * The cause of a failure. The caller is the cause if its request body does not arrive or is cut short, because the seller then
   * cannot respond.
   */
  #causeOf(x: Exchange, error: Error, { isUploading }: Pace): Error {
    if (!isUploading) return error
    if (x.transport.isClosed) return new BuyerLeft()
    return this.#deps.egress.failureOf(error) === 'EGRESS_TIMEOUT' ? new BuyerLeft(bodyTooSlow) : error
  }
}

/**
 * Whether the call ends because its buyer has disconnected. If the buyer is already charged, the call continues, and the response
 * is stored for the repeat.
 */
const isInVain = (x: Exchange) =>
  x.isOver || (x.transport.isClosed && (x.settlement === null || x.upgrade !== null))

/** Whether the caller ended the call, by disconnecting or by a request body that is too slow or too large. */
const isCallers = (cause: Error): boolean => cause instanceof BuyerLeft || isTollgateError(cause)

/** The error for a buyer who disconnected before the request was sent to the seller. */
const leftBy = (x: Exchange) => (x.settlement === null ? new BuyerLeft() : new LeftUnasked())

/**
 * Whether lenient servers may disagree about the end of the request or of its response. Many servers read a body only with POST,
 * PUT and PATCH, and treat any other body as the connection's next request. The caller could write such a request without price and
 * head checks, and the next caller would get its response. Other servers send a body after HEAD.
 */
const mayBeMisread = (method: string, body: RequestBody) =>
  method === 'HEAD' || (body !== null && method !== 'POST' && method !== 'PUT' && method !== 'PATCH')

/**
 * The reply for a refusal by the seller (4xx), for which the buyer is not charged. No cache may store it, because the cache would
 * serve it to the next buyer.
 */
function unlessCharged({ response, upstreamStatus }: Exchange): Reply | undefined {
  if (upstreamStatus < 300) return
  const { status, headers, body } = response!
  const length = status === 304 ? [] : ['Content-Length', String(body.length)]
  return { status, headers: [...uncachedHeaders(headers), ...length], body }
}
