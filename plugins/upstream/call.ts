import { uncachedHeaders } from '../../core/payments/paidReply.ts'
import { type Exchange, handled, type Reply } from '../../core/plugin/gateway.ts'
import type { OwnSlot } from '../../core/plugin/slots.ts'
import type { AnswerMemory, HeldAnswer } from '../../core/ports/answerMemory.ts'
import type { Egress, UpstreamHandler } from '../../core/ports/egress.ts'
import { BufferAnswer } from './bufferAnswer.ts'
import { BuyerLeft, bodyTooSlow, LeftUnasked, OutOfMemory, UpstreamBusy, upstreamFailure } from './failure.ts'
import type { Limits } from './limits.ts'
import type { Origin } from './origins.ts'
import type { Pace } from './pace.ts'
import type { Holder, Place, StoreCalls } from './places.ts'
import {
  type AddedHeaders,
  pathOf,
  type RequestBody,
  readSmallBody,
  requestBody,
  requestHead,
  type Target,
} from './request.ts'
import { StreamAnswer } from './streamAnswer.ts'
import { TunnelAnswer } from './tunnel.ts'

/** Where one link's calls go, and what is added to them. */
export interface Way {
  readonly target: Target
  readonly added: AddedHeaders
  readonly origin: Origin
  /** Those of the link's store. */
  readonly calls: StoreCalls
}

/**
 * Memory that a call has before anything is charged: where the charge comes last, more is taken as the answer comes; where it
 * comes first, this much of the answer is kept for sure.
 */
const FIRST_BYTES = 65_536
const FIRST_KEPT_BYTES = 262_144

/** An answer under way. */
interface Answer extends UpstreamHandler, Holder {
  readonly pace: Pace
}

/** The three ways to call a seller's API. */
export interface Calls {
  /**
   * Takes memory for the answer and a place at the seller's for a call that is going to be charged, before anything is: it waits
   * if need be.
   * Whatever becomes of the call, {@link release} follows.
   *
   * @throws `upstream_busy` when it gets none in time
   */
  reserve(x: Exchange, way: Way): void | Promise<void>
  /** Hands the answer over as it comes. @param keepBytes see {@link StreamAnswer} */
  stream(x: Exchange, way: Way, keepBytes: number): Promise<Reply>
  /** Holds the answer until it is charged; what costs nothing is the reply at once. */
  hold(x: Exchange, way: Way): Promise<Reply | undefined>
  /** Opens a tunnel. */
  connect(x: Exchange, way: Way): Promise<undefined>
  /** Gives back what was reserved, unless a tunnel has it; the memory once the answer has left. */
  release(x: Exchange): void
}

export interface CallParts {
  readonly limits: Limits
  readonly egress: Egress
  readonly memory: AnswerMemory
  /** Places of calls that are going to be charged; others have theirs for as long as the seller is asked. */
  readonly reserved: OwnSlot<Place | null>
  /** Memory of calls that are going to be charged; others hold nothing. */
  readonly held: OwnSlot<HeldAnswer | null>
}

export function createCalls({ limits, egress, memory, reserved, held }: CallParts): Calls {
  const failure = (x: Exchange, error: Error) => upstreamFailure(x, error, egress)

  /** A buyer who is charged already gets the call done even when gone: the answer is kept for the repeat. */
  const isInVain = (x: Exchange) =>
    x.isOver || (x.door.isClosed && (x.settlement === null || x.upgrade !== null))

  /** Before the seller was asked. */
  const leftBy = (x: Exchange) => (x.settlement === null ? new BuyerLeft() : new LeftUnasked())

  /** @returns a place, once the call has it */
  function take(x: Exchange, { origin, calls }: Way, isPaid: boolean): Place | Promise<Place> {
    if (isInVain(x)) throw failure(x, leftBy(x))
    if (calls.open >= limits.maxCallsPerOrigin) throw failure(x, new UpstreamBusy())
    const place = origin.begin(calls, isPaid, limits.freeTurnMs)
    return place.state === 'held' ? place : wait(x, place)
  }

  function remember(x: Exchange, way: Way): void | Promise<void> {
    const answer = memory.open(x.link.storeId)
    held.set(x, answer)
    const first = x.link.settle === 'before' ? FIRST_KEPT_BYTES : FIRST_BYTES
    const isHeld = answer.growWithin(Math.min(first, limits.maxAnswerBytes), limits.placeTimeoutMs)
    if (isHeld === true) return occupy(x, way)
    let isWaiting = true
    x.door.onClose(() => {
      if (isWaiting && isInVain(x)) answer.release()
    })
    return Promise.resolve(isHeld).then((isHeldNow) => {
      isWaiting = false
      if (!isHeldNow) throw failure(x, isInVain(x) ? leftBy(x) : new OutOfMemory())
      return occupy(x, way)
    })
  }

  function occupy(x: Exchange, way: Way): void | Promise<void> {
    const place = take(x, way, true)
    if (!(place instanceof Promise)) return void reserved.set(x, place)
    return place.then((late) => {
      if (x.isOver) late.release()
      else reserved.set(x, late)
    })
  }

  /** Back when the answer has left: what a reader does not take stays in memory. */
  function forget(x: Exchange, answer: HeldAnswer): void {
    if (x.answer === null || x.door.isClosed) return answer.release()
    x.door.onClose(() => answer.release())
    // Small ones, too: many of them are as much, and who pays for each may leave them all unread.
    answer.leaves(() => x.door.cutOff())
    if (answer.bytes > FIRST_BYTES) x.door.limitIdle(limits.bodyTimeoutMs)
  }

  function wait(x: Exchange, place: Place): Promise<Place> {
    return new Promise((resolve, reject) => {
      const giveUp = (error: Error) => {
        clearTimeout(timer)
        place.release()
        reject(failure(x, error))
      }
      const timer = setTimeout(() => giveUp(new UpstreamBusy()), limits.placeTimeoutMs)
      x.door.onClose(() => {
        if (place.state === 'waiting' && isInVain(x)) giveUp(leftBy(x))
      })
      place.granted = () => {
        clearTimeout(timer)
        resolve(place)
      }
    })
  }

  /** Runs a call on its place: the one that it reserved, or one that it takes now. */
  function onPlace<R>(x: Exchange, way: Way, call: (place: Place) => Promise<R>): Promise<R> {
    const kept = reserved.get(x)
    if (kept !== null) return call(kept)
    const reading = readSmallBody(x)
    if (reading !== null) return reading.then(() => onPlace(x, way, call))
    const place = take(x, way, false)
    return place instanceof Promise ? place.then(call) : call(place)
  }

  function dispatch(x: Exchange, way: Way, place: Place, answer: Answer, isBuffered: boolean): void {
    place.isCharged = x.settlement !== null
    place.holder = answer
    const { target, added, origin } = way
    try {
      if (isInVain(x)) throw leftBy(x)
      const body = x.upgrade === null ? requestBody(x, limits.maxRequestBytes, answer.pace) : null
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
      place.connects()
      origin.pool.dispatch(request, answer)
    } catch (error) {
      answer.onResponseError(null, error as Error)
    }
  }

  /** A body that does not come, or ends in its middle, keeps the seller from answering. */
  function causeOf(x: Exchange, error: Error, { isUploading }: Pace): Error {
    if (!isUploading) return error
    if (x.door.isClosed) return new BuyerLeft()
    return egress.failureOf(error) === 'EGRESS_TIMEOUT' ? new BuyerLeft(bodyTooSlow) : error
  }

  const streamOn = (x: Exchange, way: Way, keepBytes: number, place: Place) =>
    new Promise<Reply>((resolve, reject) => {
      const sinceMs = performance.now()
      const answer = new StreamAnswer(x, place, held.get(x), keepBytes, limits, (error) => {
        x.sellerMs = performance.now() - sinceMs
        place.release()
        if (error === null) return resolve(handled)
        const failed = failure(x, causeOf(x, error, answer.pace))
        if (answer.headSent) x.errorCode = failed.code
        if (answer.headSent || x.door.isClosed) return resolve(handled)
        reject(failed)
      })
      dispatch(x, way, place, answer, keepBytes > 0)
    })

  const holdOn = (x: Exchange, way: Way, place: Place) =>
    new Promise<Reply | undefined>((resolve, reject) => {
      const sinceMs = performance.now()
      const answer = new BufferAnswer(x, place, held.get(x)!, limits, (error) => {
        x.sellerMs = performance.now() - sinceMs
        place.release()
        if (error === null) resolve(unlessCharged(x))
        else reject(failure(x, causeOf(x, error, answer.pace)))
      })
      dispatch(x, way, place, answer, true)
    })

  const connectOn = (x: Exchange, way: Way, place: Place) =>
    new Promise<undefined>((resolve, reject) => {
      const sinceMs = performance.now()
      const answer = new TunnelAnswer(x, place, limits, (error) => {
        x.sellerMs = performance.now() - sinceMs
        if (error === null) {
          // The tunnel outlives the call, and is one of its store's until it closes.
          place.becomeTunnel()
          x.answer!.tunnel!.once('close', () => place.release())
          return resolve(undefined)
        }
        place.release()
        reject(failure(x, error))
      })
      dispatch(x, way, place, answer, false)
    })

  return {
    // An upgrade has no answer to hold.
    reserve: (x, way) => (x.upgrade === null ? remember(x, way) : occupy(x, way)),
    stream: (x, way, keepBytes) => onPlace(x, way, (place) => streamOn(x, way, keepBytes, place)),
    hold: (x, way) => onPlace(x, way, (place) => holdOn(x, way, place)),
    connect: (x, way) => onPlace(x, way, (place) => connectOn(x, way, place)),
    release(x) {
      const place = reserved.get(x)
      if (place !== null && place.state !== 'tunnel') place.release()
      const answer = held.get(x)
      if (answer !== null) forget(x, answer)
    },
  }
}

/**
 * Whether careless servers take the end of the request, or of its answer, to be somewhere else. Behind other methods than
 * these three many leave a body where it is, and take it for the connection's next request: one that the caller wrote, past
 * price and head, whose answer would be the next caller's. Others send a body after HEAD.
 */
const mayBeMisread = (method: string, body: RequestBody) =>
  method === 'HEAD' || (body !== null && method !== 'POST' && method !== 'PUT' && method !== 'PATCH')

/** What the seller refused (4xx) reaches the buyer and no cache, which would answer the next buyer with it, and costs nothing. */
function unlessCharged({ answer, upstreamStatus }: Exchange): Reply | undefined {
  if (upstreamStatus < 300) return
  const { status, headers, body } = answer!
  const length = status === 304 ? [] : ['Content-Length', String(body.length)]
  return { status, headers: [...uncachedHeaders(headers), ...length], body }
}
