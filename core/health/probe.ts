import { isTollgateError } from '../errors/error.ts'
import { LOOP_HEADER } from '../http/loopMark.ts'
import { type Egress, egressFailures, type UpstreamController } from '../ports/egress.ts'

/** A small answer is read to its end, so that the seller's log shows a whole request; a longer one is cut off. */
const DRAIN_BYTES = 64 * 1024
/** So much later the client ends by itself what has not been ended. */
const PATIENCE_MS = 1_000

/** The part of the way out that a health check uses. */
export type ProbeEgress = Pick<Egress, 'pool' | 'failureOf'>

export interface ProbeRequest {
  readonly url: string
  /** Of the link: an address that leads back to it does not pass, see {@link LoopMarks}. */
  readonly loopMark: string
  /** From the start, name look-up and connecting included, to the head of the answer. */
  readonly timeoutMs: number
  /** The link's own upstream headers, so that the check sees what a buyer's call would. */
  readonly headers?: Readonly<Record<string, string>>
}

/** What a health check saw. */
export interface ProbeReport {
  /** The API answered with a status below 500; 402 and other 4xx say that it runs. */
  readonly ok: boolean
  /** Null when nothing answered. */
  readonly status: number | null
  readonly latencyMs: number
  /** In words for the seller; never carries a header or a body. */
  readonly detail: string
}

/**
 * Asks a seller's API with one GET whether it answers. GET, whatever methods the link takes: it is safe by definition
 * (RFC 9110, section 9.2.1), and a 405 is as good an answer as any. Only the head counts, so that an endless stream or
 * a large download is healthy too. Redirects are not followed. Never rejects.
 *
 * @param now monotonic or wall-clock milliseconds; only differences are used
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
    if (status === 'timeout') return report(null, `No answer within ${seconds} s.`)
    return report(status, `Answered with status ${status}.`)
  } catch (error) {
    return report(null, isTollgateError(error) ? error.message : egressFailures[egress.failureOf(error)])
  }
}

/** The status of the answer's head. Rejects when there was none; the pool is given back when the exchange is over. */
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
          // The timer above is first, and says it in its own words.
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
            // Informational answers come before the one that counts (RFC 9110, section 15.2).
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
