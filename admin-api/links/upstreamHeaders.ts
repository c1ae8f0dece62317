import type { ErrorDetail } from '../../core/errors/error.ts'
import type { Sealer } from '../../core/ports/sealer.ts'

/**
 * Headers that belong to the connection (RFC 9110, section 7.6.1), to the gateway's own framing and routing, or to
 * payments. A seller's fixed value for any of them would break the exchange or forge what the gateway says.
 */
const forbidden = new Set([
  'cdn-loop',
  'connection',
  'content-encoding',
  'content-length',
  'date',
  'expect',
  'forwarded',
  'host',
  'http2-settings',
  'keep-alive',
  'payment-required',
  'payment-response',
  'payment-signature',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'via',
  'x-payment',
  'x-payment-response',
])
const forbiddenStart = /^(?:x-forwarded-|x-payment-|payment-|x-tollgate-)/
/** RFC 9110, section 5.6.2. */
const tokenForm = /^[!#$%&'*+.^_`|~0-9a-z-]{1,64}$/
/** Visible ASCII, and spaces and tabs between (RFC 9110, section 5.5). */
const valueForm = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/

export type UpstreamHeaders = Readonly<Record<string, string>>

/** Reads the headers that a seller wants added: names in lower case, none forbidden, none twice. */
export function readUpstreamHeaders(
  given: UpstreamHeaders,
): { headers: UpstreamHeaders } | { problems: ErrorDetail[] } {
  const headers: Record<string, string> = Object.create(null)
  const problems: ErrorDetail[] = []
  for (const [givenName, value] of Object.entries(given)) {
    const name = givenName.toLowerCase()
    const problem = problemOf(name, value, Object.hasOwn(headers, name))
    if (problem === undefined) headers[name] = value
    // The value may be a credential: it is in no message.
    else problems.push({ path: 'upstreamHeaders', ...problem })
  }
  return problems.length === 0 ? { headers } : { problems }
}

function problemOf(name: string, value: string, isTwice: boolean): Omit<ErrorDetail, 'path'> | undefined {
  const shown = JSON.stringify(name.slice(0, 64))
  if (!tokenForm.test(name)) return { code: 'name', message: `${shown} is not a header name.` }
  if (forbidden.has(name) || forbiddenStart.test(name)) {
    return {
      code: 'forbidden_header',
      message: `The header ${shown} is set by the gateway and can not be fixed.`,
    }
  }
  if (isTwice)
    return { code: 'duplicate', message: `The header ${shown} is there twice; case does not count.` }
  if (value !== '' && !valueForm.test(value)) {
    return {
      code: 'format',
      message: `The value of ${shown} must be printable ASCII without spaces at its ends.`,
    }
  }
}

/** Seals headers under the id of their link; null when there are none. */
export function sealUpstreamHeaders(sealer: Sealer, linkId: string, headers: UpstreamHeaders): string | null {
  return Object.keys(headers).length === 0 ? null : sealer.seal(JSON.stringify(headers), linkId)
}

/** What {@link sealUpstreamHeaders} sealed. @throws when the secret or the id is another */
export function openUpstreamHeaders(sealer: Sealer, linkId: string, sealed: string | null): UpstreamHeaders {
  return sealed === null ? {} : JSON.parse(sealer.open(sealed, linkId))
}
