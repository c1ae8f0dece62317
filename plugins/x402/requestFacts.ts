import { TollgateError } from '../../core/errors/error.ts'
import { alike } from '../../core/http/headerNames.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { Unclear } from '../../core/pricing/ambiguity.ts'
import { assertUncompressed } from '../../core/pricing/bodyFacts.ts'
import { readHeaders } from '../../core/pricing/headerFacts.ts'

/** Maximum size of a body that the facts include, in bytes. Of a longer body, the facts include only the length. */
export const MAX_FACT_BODY_BYTES = 65_536

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * The facts of a request for the seller's price server, as JSON. They describe exactly the request that the gateway forwards. Equal
 * requests have equal facts.
 *
 * @param names names of the headers that the facts include, in lower case
 * @throws `ambiguous_request` if such a header occurs twice, has another spelling, or is not forwarded. `unsupported_encoding` for a
 *   compressed body, `length_required` for a body without a stated length
 */
export function factsOf(x: Exchange, names: readonly string[]): string {
  if (x.hasBody) assertUncompressed(x.transport.rawHeaders)
  const values = readHeaders(
    x.transport.rawHeaders,
    new Map(names.map((name) => [alike(name), name] as const)),
  )
  const headers: Record<string, string> = {}
  for (const name of names) {
    const value = values.get(name)
    if (value instanceof Unclear)
      throw new TollgateError(
        'ambiguous_request',
        `The price of this link depends on the request. ${value.problem} You were not charged.`,
      )
    if (value !== undefined) headers[name] = value
  }
  return JSON.stringify({
    linkId: x.link.id,
    // HEAD has the price of GET, because it requests the same response without its body (RFC 9110, section 9.3.2).
    method: x.method === 'HEAD' ? 'GET' : x.method,
    path: x.subPath || '/',
    query: x.query,
    headers,
    body: textOf(x),
    bodyBytes: bytesOf(x),
  })
}

/** The body as text. Null if there is no body, and for a body that is not UTF-8 or longer than {@link MAX_FACT_BODY_BYTES}. */
function textOf({ body }: Exchange): string | null {
  if (body === null || body.length === 0 || body.length > MAX_FACT_BODY_BYTES) return null
  try {
    return utf8.decode(body)
  } catch {
    return null
  }
}

/**
 * The length of the body in bytes.
 *
 * @throws `length_required` if the request does not state the length, because the price server could take it for an empty body
 */
function bytesOf(x: Exchange): number {
  if (x.body !== null) return x.body.length
  if (!x.hasBody) return 0
  const stated = x.header('content-length')
  if (stated === undefined) throw new TollgateError('length_required')
  return Number(stated)
}
