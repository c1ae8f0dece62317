import { type Exchange, handled, type Reply } from '../../core/plugin/gateway.ts'
import type { Egress, UpstreamHandler } from '../../core/ports/egress.ts'
import { BufferAnswer } from './bufferAnswer.ts'
import { BuyerLeft, hasLeft, UpstreamBusy, upstreamFailure } from './failure.ts'
import type { Limits } from './limits.ts'
import type { Origin } from './origins.ts'
import { assertStatedLength, type RequestBody, requestBody } from './requestBody.ts'
import { type AddedHeaders, requestHead } from './requestHead.ts'
import { StreamAnswer } from './streamAnswer.ts'
import { pathOf, type Target } from './target.ts'
import { TunnelAnswer } from './tunnel.ts'

/** Where one link's calls go, and what is added to them. */
export interface Way {
  readonly target: Target
  readonly added: AddedHeaders
  readonly origin: Origin
}

/** An answer under way that wants to know when its request has to wait for a connection. */
interface Answer extends UpstreamHandler {
  waits(): void
  /** Neither sent nor over. */
  readonly isWaiting: boolean
}

/** A call that has waited so long for a connection has found none free: before, one may just be opened. */
const NONE_FREE_MS = 1_000

/** The three ways to call a seller's API. */
export interface Calls {
  /** Hands the answer over as it comes. @param keepBytes see {@link StreamAnswer} */
  stream(x: Exchange, way: Way, keepBytes: number): Promise<Reply>
  /** Holds the answer until it is charged; what costs nothing is the reply at once. */
  hold(x: Exchange, way: Way): Promise<Reply | undefined>
  /** Opens a tunnel. */
  connect(x: Exchange, way: Way): Promise<undefined>
  /** @throws `upstream_busy` when no further call may begin; `payload_too_large` for a body that states to be. */
  assertAcceptable(x: Exchange, way: Way): void
}

export function createCalls(limits: Limits, egress: Egress): Calls {
  const failure = (x: Exchange, error: Error) => upstreamFailure(x, error, egress)

  function assertRoom(x: Exchange, { origin }: Way): void {
    if (origin.openCalls >= limits.maxCallsPerOrigin) throw failure(x, new UpstreamBusy())
  }

  /** A buyer who is charged already gets the call done even when gone: the answer is kept for the repeat. */
  function assertWorthwhile(x: Exchange, way: Way): void {
    if (hasLeft(x) && (x.settlement === null || x.upgrade !== null)) throw failure(x, new BuyerLeft())
    assertRoom(x, way)
  }

  function dispatch(x: Exchange, way: Way, answer: Answer, isBuffered: boolean): void {
    let body: RequestBody | Promise<RequestBody>
    try {
      body = x.upgrade === null ? requestBody(x, limits.maxRequestBytes) : null
    } catch (error) {
      return answer.onResponseError(null, error as Error)
    }
    if (!(body instanceof Promise)) return start(x, way, answer, isBuffered, body)
    body.then(
      (whole) => start(x, way, answer, isBuffered, whole),
      (error: Error) => answer.onResponseError(null, error),
    )
  }

  function start(x: Exchange, way: Way, answer: Answer, isBuffered: boolean, body: RequestBody): void {
    const { target, added, origin } = way
    const request = {
      path: pathOf(target, x.subPath, x.query),
      method: x.req.method!,
      headers: requestHead(x, added, isBuffered),
      body,
      headersTimeout: limits.headersTimeoutMs,
      bodyTimeout: limits.bodyTimeoutMs,
      ...(mayBeMisread(x.req.method!, body) && { reset: true }),
      ...(x.upgrade !== null && { upgrade: x.req.headers.upgrade! }),
    }
    try {
      if (origin.pool.dispatch(request, answer)) return
      answer.waits()
      lookForRoom(origin, answer)
    } catch (error) {
      answer.onResponseError(null, error as Error)
    }
  }

  function lookForRoom(origin: Origin, answer: Answer): void {
    const look = setInterval(() => {
      if (answer.isWaiting) origin.makeRoom()
      else clearInterval(look)
    }, NONE_FREE_MS).unref()
  }

  return {
    assertAcceptable(x, way) {
      assertRoom(x, way)
      if (x.hasBody) assertStatedLength(x, limits.maxRequestBytes)
    },

    stream(x, way, keepBytes) {
      assertWorthwhile(x, way)
      way.origin.begin()
      return new Promise<Reply>((resolve, reject) => {
        const answer = new StreamAnswer(x, keepBytes, limits, way.origin, (error) => {
          way.origin.end()
          if (error === null) return resolve(handled)
          const failed = failure(x, error)
          if (answer.headSent) x.errorCode = failed.code
          if (answer.headSent || x.res.destroyed) return resolve(handled)
          reject(failed)
        })
        dispatch(x, way, answer, keepBytes > 0)
      })
    },

    hold(x, way) {
      assertWorthwhile(x, way)
      way.origin.begin()
      return new Promise<Reply | undefined>((resolve, reject) => {
        const answer = new BufferAnswer(x, limits.maxAnswerBytes, limits.answerTimeoutMs, (error) => {
          way.origin.end()
          if (error === null) resolve(unlessCharged(x))
          else reject(failure(x, error))
        })
        dispatch(x, way, answer, true)
      })
    },

    connect(x, way) {
      assertWorthwhile(x, way)
      way.origin.begin()
      return new Promise<undefined>((resolve, reject) => {
        const answer = new TunnelAnswer(x, limits.headersTimeoutMs, (error) => {
          if (error === null) {
            // The tunnel outlives the call, and is one of the seller's connections until it closes.
            x.answer!.tunnel!.once('close', () => way.origin.end())
            return resolve(undefined)
          }
          way.origin.end()
          reject(failure(x, error))
        })
        dispatch(x, way, answer, false)
      })
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

/** What the seller refused (4xx) reaches the buyer as it is, and costs nothing. */
function unlessCharged({ answer, upstreamStatus }: Exchange): Reply | undefined {
  if (upstreamStatus < 300) return
  const { status, headers, body } = answer!
  const length = status === 304 ? [] : ['Content-Length', String(body.length)]
  return { status, headers: [...headers, ...length], body }
}
