import { VaultError } from '../errors/error.ts'
import type { CallRule } from './credential.ts'

const LONGEST_URL = 8_192

/**
 * Parses the URL of a call in its canonical form. The rules must judge exactly what the vault sends. So a URL that a server
 * could resolve to another path is refused and not normalized (RFC 3986, sections 3.3 and 5.2.4).
 *
 * @throws `VALIDATION_ERROR`
 */
export function readCallUrl(text: unknown): URL {
  const url = typeof text === 'string' && text.length <= LONGEST_URL ? URL.parse(text) : null
  if (
    url === null ||
    !/^https?:$/.test(url.protocol) ||
    url.username !== '' ||
    url.password !== '' ||
    url.hash !== ''
  )
    throw invalid('Expected url to be an absolute http(s) address without user, password and #.')
  const isCanonical = text === url.href || `${text as string}/` === url.href
  if (
    !isCanonical ||
    url.pathname.includes('//') ||
    ambiguous.test(url.pathname) ||
    !isPlainUtf8(url.pathname)
  )
    throw invalid(
      'Expected url in canonical form, its path without ; and without escaped dots, slashes, percent signs and ; ? #.',
    )
  if (parameterNames(url).some((name) => overriding.test(name)))
    throw invalid('Expected url without parameters that override the method, such as _method.')
  return url
}

/**
 * Characters that some servers read as a part of a name and others as a delimiter. `;` starts parameters of a segment, which
 * many servers drop before routing. Some servers unescape a delimiter before they split the path.
 */
const ambiguous = /;|%(?:2e|2f|5c|25|3b|3f|23|0|1|7f)/i

/** Names of parameters and fields by which frameworks override the method. */
const overriding =
  /^(?:_method|_?http_?method|x[-_]http[-_]method.*|x[-_]method[-_]override|method[-_]?override)(?:\[.*)?$/i

/** The names in a query string, for servers that separate by `;` as well as by `&`. */
export const parameterNames = (url: URL): string[] => namesIn(url.search.slice(1))

const namesIn = (form: string): string[] =>
  form.split(/[&;]/).map((part) => [...new URLSearchParams(part).keys()][0]?.trim() ?? '')

/**
 * Refuses a body that overrides the method that the rules judged, by a field `_method` in a form or in JSON.
 * @throws `VALIDATION_ERROR`
 */
export function assertNoOverride(body: string): void {
  const inForm = namesIn(body).some((name) => overriding.test(name))
  const inParts = /\bname\*?=(?:[\w-]*'')?["']?_method\b/i.test(body)
  const inLooseJson = /["']_method["']\s*:/i.test(body)
  if (!inForm && !inParts && !inLooseJson && !fieldsOf(body).some((name) => overriding.test(name))) return
  throw invalid('body: Expected no field that overrides the method, such as _method.')
}

function fieldsOf(body: string): string[] {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? Object.keys(value) : []
  } catch {
    return []
  }
}

/**
 * Whether a path has only one meaning. False for overlong UTF-8, and for characters that become delimiters when a server
 * normalizes them (`．`, `／`).
 */
function isPlainUtf8(path: string): boolean {
  try {
    return !/[./\\;?#%]/.test(decodeURIComponent(path.replaceAll(/[./]/g, '')).normalize('NFKC'))
  } catch {
    return false
  }
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

/** Whether a path matches a pattern, segment by segment. `/v1/items` allows neither `/v1/items2` nor `/v1/items/7`. */
function matchesPath(pattern: string, path: string): boolean {
  const wanted = pattern.split('/')
  const segments = path.split('/')
  const isOpen = wanted.at(-1) === '**'
  if (isOpen) wanted.pop()
  if (isOpen ? segments.length <= wanted.length : segments.length !== wanted.length) return false
  return wanted.every((part, i) => (part === '*' ? segments[i] !== '' : part === segments[i]))
}

const invalid = (message: string): VaultError => new VaultError('VALIDATION_ERROR', message)
