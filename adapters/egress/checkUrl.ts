import { isIP } from 'node:net'
import { TollgateError } from '../../core/errors/error.ts'
import type { AddressPolicy } from './addressPolicy.ts'

/** Longer than any honest URL; RFC 9110, section 4.1 asks for 8,000 octets at least. */
const MAX_URL_CHARS = 8192
/** RFC 1035, section 2.3.4, less the length octets. */
const MAX_HOST_CHARS = 253

/**
 * Refuses a URL that could never be connected to, before it is stored or dialled.
 *
 * The WHATWG parser first makes one form of the host (`0x7f.1`, `2130706433`, `%3127.0.0.1`, full-width digits and
 * `127.0.0.1.` all become `127.0.0.1`), and that form is judged. A name is not resolved here: what it resolves to
 * is judged on each connection.
 *
 * @param schemes with the colon, such as `['http:', 'https:']`
 * @throws {TollgateError} `VALIDATION_ERROR`, with the rule in `details`
 */
export function checkUrl(text: string, policy: AddressPolicy, schemes: readonly string[]): URL {
  if (typeof text !== 'string' || text === '') refuse('required', 'The URL is missing.')
  if (text.length > MAX_URL_CHARS) {
    refuse('too_long', `The URL has ${text.length} characters; at most ${MAX_URL_CHARS} are allowed.`)
  }
  // The parser drops tabs and line ends and turns backslashes round; a URL that needs that is not what it seems.
  if (hasUnseemlyCharacter(text)) {
    refuse('characters', 'The URL contains a space, a control character or a backslash; percent-encode it.')
  }
  // The parser makes `http://host` of `http:///host` and of `http:host`, too.
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^/?#]/i.test(text) || !URL.canParse(text))
    refuse('format', `The URL can not be read; expected a form such as ${schemes[0]}//host/path.`)

  const url = new URL(text)
  if (!schemes.includes(url.protocol)) {
    refuse('scheme', `The URL has the scheme "${url.protocol}"; expected ${schemes.join(' or ')}.`)
  }
  if (url.username !== '' || url.password !== '') {
    refuse('credentials', 'The URL carries a user name or password; expected one without.')
  }
  if (url.port === '0') refuse('port', 'The URL names port 0; expected 1 to 65535.')

  const host = hostOf(url)
  if (host === '' || host.length > MAX_HOST_CHARS || url.hostname.includes('..') || host.startsWith('.')) {
    refuse(
      'host',
      `The URL's host name is not one; expected at most ${MAX_HOST_CHARS} characters and no empty part.`,
    )
  }
  if (!isPossible(host, policy)) {
    refuse(
      'private_address',
      'The URL points to an address that is not public; use one that is, or ask the operator to allow it.',
    )
  }
  return url
}

/** The host as it is dialled: no brackets, no trailing dot. */
export function hostOf(url: URL): string {
  const host = url.hostname
  if (host.startsWith('[')) return host.slice(1, -1)
  return host.endsWith('.') ? host.slice(0, -1) : host
}

/** RFC 6761, section 6.3: these names mean the loopback address, whatever a name server says. */
export function isLocalhost(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost')
}

/** Where {@link isLocalhost} names lead; the policy still has to allow it. */
export const loopback = ['127.0.0.1', '::1'] as const

function isPossible(host: string, policy: AddressPolicy): boolean {
  if (isIP(host) !== 0) return policy(host)
  return !isLocalhost(host) || loopback.some(policy)
}

function hasUnseemlyCharacter(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code <= 0x20 || code === 0x7f || code === 0x5c) return true
  }
  return false
}

/** @throws {TollgateError} `VALIDATION_ERROR` of a URL, always */
export function refuse(code: string, message: string): never {
  throw new TollgateError('VALIDATION_ERROR', message, { details: [{ path: 'url', code, message }] })
}
