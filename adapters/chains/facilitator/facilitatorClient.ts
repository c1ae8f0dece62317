import { type Egress, type EgressErrorCode, egressFailures } from '../../../core/ports/egress.ts'

/** Answers are a few hundred bytes; more than this is none. */
const MAX_ANSWER_BYTES = 65_536

export interface FacilitatorClientOptions {
  /** Base URL; the routes are appended to its path. */
  readonly url: string
  /** Sent with every request, such as `authorization`. */
  readonly headers: Readonly<Record<string, string>>
  readonly egress: Egress
}

/** What came back from the facilitator. */
export type FacilitatorAnswer =
  | {
      readonly arrived: 'answered'
      readonly status: number
      readonly body: Readonly<Record<string, unknown>>
    }
  /** The request certainly never reached it. */
  | { readonly arrived: 'no'; readonly message: string }
  /** It may have reached it: no answer, a cut one, or one that can't be read. */
  | { readonly arrived: 'unknown'; readonly message: string }

/** An x402 facilitator's three routes. Never rejects. */
export interface FacilitatorClient {
  get(route: 'supported', timeoutMs: number): Promise<FacilitatorAnswer>
  post(route: 'verify' | 'settle', body: object, timeoutMs: number): Promise<FacilitatorAnswer>
}

export function createFacilitatorClient(options: FacilitatorClientOptions): FacilitatorClient {
  const { headers, egress } = options
  const base = options.url.replace(/\/+$/, '')

  const ask = async (
    method: string,
    route: string,
    timeoutMs: number,
    body?: string,
  ): Promise<FacilitatorAnswer> => {
    try {
      const answer = await egress.request({
        url: `${base}/${route}`,
        method,
        headers: {
          accept: 'application/json',
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body }),
        timeoutMs,
        maxBytes: MAX_ANSWER_BYTES,
      })
      const parsed: unknown = JSON.parse(Buffer.from(answer.body).toString('utf8'))
      if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
        return { arrived: 'unknown', message: `HTTP ${answer.status} without a JSON object` }
      }
      return { arrived: 'answered', status: answer.status, body: parsed as Record<string, unknown> }
    } catch (error) {
      const { code, isUnsent } = (error ?? {}) as { code?: unknown; isUnsent?: unknown }
      const message = typeof code === 'string' ? inWords(code) : 'an answer that is not JSON'
      const isSurelyUnsent = isUnsent === true || neverSent.has(code as EgressErrorCode)
      return { arrived: isSurelyUnsent ? 'no' : 'unknown', message }
    }
  }
  return {
    get: (route, timeoutMs) => ask('GET', route, timeoutMs),
    post: (route, body, timeoutMs) => ask('POST', route, timeoutMs, JSON.stringify(body)),
  }
}

/** Failures that come before the first byte of a request, always; of the others each says so itself. */
const neverSent: ReadonlySet<EgressErrorCode> = new Set([
  'EGRESS_REFUSED',
  'EGRESS_UNREACHABLE',
  'EGRESS_UNTRUSTED',
  'EGRESS_BAD_REQUEST',
])

/** A failure as a part of a sentence. */
function inWords(code: string): string {
  if (!Object.hasOwn(egressFailures, code)) return code
  const words = egressFailures[code as EgressErrorCode]
  return words[0]!.toLowerCase() + words.slice(1).replace(/\.$/, '')
}
