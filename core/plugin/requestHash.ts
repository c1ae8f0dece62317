import { createHash, hash } from 'node:crypto'
import type { Exchange } from './exchange.ts'

/**
 * Identifies the call that a payment buys. It is the SHA-256 in hex over method, path, query and body, each preceded by its length.
 * A call with the same payment and another hash is a different call, and is refused. A call with the same hash gets the stored
 * response.
 *
 * @param body null if the call has no body. For a form, its parts, because each client chooses its own boundary
 */
export function requestHash(method: string, target: string, body: Uint8Array | Uint8Array[] | null): string {
  if (Array.isArray(body)) {
    const all = createHash('sha256').update(`form:${method.length}:${method}${target.length}:${target}`)
    for (const part of body) all.update(`${part.length}:`).update(part)
    return all.digest('hex')
  }
  const head = `${method.length}:${method}${target.length}:${target}${body?.length ?? 0}:`
  // The function `hash` is used for a single piece, because a hash object costs twice as much (bench/paid.ts).
  if (body === null) return hash('sha256', head, 'hex')
  return createHash('sha256').update(head).update(body).digest('hex')
}

/**
 * Maximum parts of a form. A body with more parts is compared as a whole, because each part costs time, and forms have few parts.
 */
const MAX_PARTS = 1_000

const boundaryOf =
  /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\r\n\\]{1,70})"|([^\s";,]{1,70}))\s*(?:;|$)/i

/**
 * The parts of a form, each with its head as received. The parts stay the same if a client sends the form again with another
 * boundary, as each new `FormData` does.
 *
 * @returns null if the body is no form, or is not written strictly (RFC 2046, section 5.1.1), because readers could then disagree
 *   about the ends of its parts
 */
export function formParts(contentType: string | undefined, body: Buffer): Buffer[] | null {
  const [, quoted, token] = boundaryOf.exec(contentType ?? '') ?? []
  const boundary = quoted ?? token
  if (boundary === undefined) return null
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
  const first = delimiter.subarray(2)
  if (!body.subarray(0, first.length).equals(first)) return null
  const parts: Buffer[] = []
  for (let at = first.length; ; ) {
    const next = body.toString('latin1', at, at + 2)
    if (next === '--') {
      const rest = body.toString('latin1', at + 2)
      return rest === '' || rest === '\r\n' ? parts : null
    }
    const end = body.indexOf(delimiter, at + 2)
    if (next !== '\r\n' || end === -1 || parts.length === MAX_PARTS) return null
    parts.push(body.subarray(at + 2, end))
    at = end + delimiter.length
  }
}

/** The hash of a call. Null if the body is too long to be read whole, so that a repeat of the call cannot be recognized. */
export function callHash(x: Exchange, maxBodyBytes: number): string | null | Promise<string | null> {
  const { method } = x
  const target = x.subPath + x.query
  if (!x.hasBody) return requestHash(method, target, null)
  const reading = x.readBody(maxBodyBytes)
  return reading === null
    ? null
    : reading.then((body) => requestHash(method, target, formParts(x.header('content-type'), body) ?? body))
}
