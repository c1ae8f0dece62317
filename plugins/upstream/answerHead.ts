import { isDroppedFromAnswer } from './dropped.ts'
import { nominatedBy } from './requestHead.ts'

/** A seller's answer head, filtered for the buyer. */
export interface AnswerHead {
  /** Flat; without `Content-Length`, which whoever sends the body states. */
  readonly headers: string[]
  /** Stated length of the body in bytes; -1 when not stated. */
  readonly contentLength: number
  /** Lower case, without parameters; empty when not stated. */
  readonly mediaType: string
  /** Whether the seller dated the answer; otherwise the gateway does. */
  readonly hasDate: boolean
}

/**
 * What keeps a page of a seller's from acting for the gateway's origin, where the checkout and the other sellers live:
 * an origin of its own (HTML, "sandboxing"), and no guessing that something is a page. JSON is never shown as one.
 */
const confinement = [
  'X-Content-Type-Options',
  'nosniff',
  'Content-Security-Policy',
  'sandbox allow-scripts allow-forms allow-downloads',
]

/**
 * Rebuilds the seller's head for the buyer. All sellers share one origin, so what would speak for that origin (cookies,
 * HSTS, CORS, CSP) stays behind, and so does everything about payment.
 *
 * @param raw flat names and values as undici hands them over
 */
export function answerHead(raw: readonly (Buffer | string)[]): AnswerHead {
  const flat: string[] = new Array(raw.length)
  for (let i = 0; i < raw.length; i++) {
    const part = raw[i]!
    flat[i] = typeof part === 'string' ? part : part.toString('latin1')
  }
  const nominated = nominatedBy(flat)
  const headers: string[] = []
  let contentLength = -1
  let mediaType = ''
  let hasDate = false
  for (let i = 0; i < flat.length; i += 2) {
    const name = flat[i]!
    const lower = name.toLowerCase()
    const value = flat[i + 1]!
    if (lower === 'content-length') {
      contentLength = Number(value)
      continue
    }
    if (isDroppedFromAnswer(lower)) continue
    if (nominated?.has(lower)) continue
    if (lower === 'content-type') mediaType = mediaTypeOf(value)
    else if (lower === 'date') hasDate = true
    headers.push(name, value)
  }
  if (mediaType !== 'application/json') headers.push(...confinement)
  return { headers, contentLength, mediaType, hasDate }
}

function mediaTypeOf(value: string): string {
  const end = value.indexOf(';')
  return (end === -1 ? value : value.slice(0, end)).trim().toLowerCase()
}
