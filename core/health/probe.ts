import { isTollgateError } from '../errors/error.ts'
import { LOOP_HEADER } from '../http/loopMark.ts'
import { type Egress, egressFailures, type UpstreamController } from '../ports/egress.ts'

/**
 * Maximum size of a response that is read to its end, in bytes, so that the seller's log shows a complete request. A longer
 * response is cut off.
 */
const DRAIN_BYTES = 64 * 1024
/** How much later than the timeout the HTTP client would end the request by itself, in ms. */
const PATIENCE_MS = 1_000

/** The part of the egress that a health check uses. */
export type ProbeEgress = Pick<Egress, 'pool' | 'failureOf'>

export interface ProbeRequest {
  readonly url: string
  /** The link's loop mark. If the address leads back to the link, the check fails, see {@link LoopMarks}. */
  readonly loopMark: string
  /** Time limit from the start to the head of the response, including name lookup and connecting, in ms. */
  readonly timeoutMs: number
  /** The link's own upstream headers, so that the check gets the same response as a buyer's call. */
  readonly headers?: Readonly<Record<string, string>>
}

/** The result of a health check. */
export interface ProbeReport {
  /** True if the API responded with a status below 500. A 402 or another 4xx shows that it runs. */
  readonly ok: boolean
  /** Null if there was no response. */
  readonly status: number | null
  readonly latencyMs: number
  /** A message for the seller. It never contains a header or a body. */
  readonly detail: string
}

/**
 * Sends one GET to a seller's API to check that the API responds. It uses GET even if the link does not support GET, because GET is
 * safe by definition (RFC 9110, section 9.2.1), and a 405 is a good response too. Only the head counts, so an endless stream or a
 * large download is healthy. Redirects are not followed. Never rejects.
 *
 * @param now clock in ms, monotonic or wall clock. Only differences count
 */
export async function probe(
  egress: ProbeEgress,
  request: ProbeRequest,
  now: () => number = () => performance.now(),
): Promise<ProbeReport> {
  const startedAt = now()
  const seconds = request.timeoutMs / 1000
  const report = (status: number | null, detail: string): ProbeReport => ({
    ok: status !== null && status < 500,
    status,
    latencyMs: Math.max(0, Math.round(now() - startedAt)),
    detail,
  })
  try {
    const status = await headOf(egress, request)
    if (status === 'timeout') return report(null, `No response within ${seconds} s.`)
    return report(status, `The response has status ${status}.`)
  } catch (error) {
    return report(null, isTollgateError(error) ? error.message : egressFailures[egress.failureOf(error)])
  }
}

/** The status of the response's head. Rejects if there was no head. The pool is released when the exchange has ended. */
function headOf(egress: ProbeEgress, request: ProbeRequest): Promise<number | 'timeout'> {
  const url = new URL(request.url)
  const pool = egress.pool(url.origin, 'checks')
  return new Promise((resolve, reject) => {
    let controller: UpstreamController | undefined
    let isOver = false
    let isLate = false
    let bytes = 0
    const tooLate = () => controller?.abort(new Error('health check timed out'))
    const timer = setTimeout(() => {
      isLate = true
      resolve('timeout')
      tooLate()
    }, request.timeoutMs)
    const end = () => {
      if (isOver) return
      isOver = true
      clearTimeout(timer)
      pool.release()
    }
    const fail = (error: unknown) => {
      end()
      reject(error)
    }
    try {
      pool.dispatch(
        {
          path: url.pathname + url.search,
          method: 'GET',
          headers: flatten({
            accept: '*/*',
            'user-agent': 'tollgate-health-check',
            [LOOP_HEADER]: request.loopMark,
            ...request.headers,
          }),
          body: null,
          // The timer above ends the request earlier, with its own message.
          headersTimeout: request.timeoutMs + PATIENCE_MS,
          bodyTimeout: request.timeoutMs + PATIENCE_MS,
        },
        {
          onRequestStart(c) {
            controller = c
            if (isLate) tooLate()
          },
          onResponseStart(c, statusCode) {
            controller = c
            // Interim responses precede the final response (RFC 9110, section 15.2).
            if (statusCode >= 200) resolve(statusCode)
          },
          onResponseData(c, chunk) {
            bytes += chunk.length
            if (bytes > DRAIN_BYTES) c.abort(new Error('health check has seen enough'))
          },
          onResponseEnd: end,
          onResponseError: (_c, error) => fail(error),
        },
      )
    } catch (error) {
      fail(error)
    }
  })
}

const flatten = (headers: Readonly<Record<string, string>>): string[] => Object.entries(headers).flat()
