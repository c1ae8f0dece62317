import { VaultError } from '../errors/error.ts'
import type { CallRule } from './credential.ts'

const longestUrl = 8_192

/**
 * Reads the address of a call in its one spelling: what the rules judge is what is sent, so an address that a server
 * could resolve to another path is refused, not repaired (RFC 3986, sections 3.3 and 5.2.4).
 *
 * @throws `VALIDATION_ERROR`
 */
export function readCallUrl(text: unknown): URL {
  const url = typeof text === 'string' && text.length <= longestUrl ? URL.parse(text) : null
  if (
    url === null ||
    !/^https?:$/.test(url.protocol) ||
    url.username !== '' ||
    url.password !== '' ||
    url.hash !== ''
  )
    throw invalid('Expected url to be an absolute http(s) address without user, password and #.')
  const isCanonical = text === url.href || `${text as string}/` === url.href
  if (!isCanonical || url.pathname.includes('//') || /%(?:2e|2f|5c|25|0|1|7f)/i.test(url.pathname))
    throw invalid(
      'Expected url in its canonical spelling, without escaped dots, slashes and percent signs in its path.',
    )
  return url
}

/** Whether one rule allows this method at this address. */
export function isAllowedCall(rules: readonly CallRule[], method: string, url: URL): boolean {
  return rules.some(
    (rule) =>
      rule.origin === url.origin &&
      rule.methods.includes(method) &&
      rule.paths.some((pattern) => matchesPath(pattern, url.pathname)),
  )
}

/** Segment by segment, so that `/v1/items` allows neither `/v1/items2` nor `/v1/items/7`. */
function matchesPath(pattern: string, path: string): boolean {
  const wanted = pattern.split('/')
  const segments = path.split('/')
  const isOpen = wanted.at(-1) === '**'
  if (isOpen) wanted.pop()
  if (isOpen ? segments.length <= wanted.length : segments.length !== wanted.length) return false
  return wanted.every((part, i) => (part === '*' ? segments[i] !== '' : part === segments[i]))
}

const invalid = (message: string): VaultError => new VaultError('VALIDATION_ERROR', message)
