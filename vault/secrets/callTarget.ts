import { VaultError } from '../errors/error.ts'
import type { CallRule } from './credential.ts'

const LONGEST_URL = 8_192

/**
 * Reads the address of a call in its one spelling: what the rules judge is what is sent, so an address that a server
 * could resolve to another path is refused, not repaired (RFC 3986, sections 3.3 and 5.2.4).
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
      'Expected url in its canonical spelling, its path without ; and without escaped dots, slashes, percent signs and ; ? #.',
    )
  if (parameterNames(url).some((name) => overriding.test(name)))
    throw invalid('Expected url without parameters that stand for another method, such as _method.')
  return url
}

/**
 * What one server takes for part of a name and another for something with a meaning: `;` begins parameters of a segment, which
 * many servers drop before they look for the path; an escaped delimiter is one for whoever unescapes before it splits.
 */
const ambiguous = /;|%(?:2e|2f|5c|25|3b|3f|23|0|1|7f)/i

/** Names of parameters and fields that frameworks take the method from. */
const overriding =
  /^(?:_method|_?http_?method|x[-_]http[-_]method.*|x[-_]method[-_]override|method[-_]?override)(?:\[.*)?$/i

/** The names in a query, as servers read them that separate by `;` as well as by `&`. */
export const parameterNames = (url: URL): string[] => namesIn(url.search.slice(1))

const namesIn = (form: string): string[] =>
  form.split(/[&;]/).map((part) => [...new URLSearchParams(part).keys()][0]?.trim() ?? '')

/**
 * Refuses a body that asks for another method than the one that the rules judged: a field `_method` of a form or of JSON.
 * @throws `VALIDATION_ERROR`
 */
export function assertNoOverride(body: string): void {
  const inForm = namesIn(body).some((name) => overriding.test(name))
  const inParts = /\bname\*?=(?:[\w-]*'')?["']?_method\b/i.test(body)
  const inLooseJson = /["']_method["']\s*:/i.test(body)
  if (!inForm && !inParts && !inLooseJson && !fieldsOf(body).some((name) => overriding.test(name))) return
  throw invalid('body: Expected no field that stands for another method, such as _method.')
}

function fieldsOf(body: string): string[] {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? Object.keys(value) : []
  } catch {
    return []
  }
}

/** Overlong UTF-8, and characters that turn into delimiters when a server normalises them (`．`, `／`), are two paths in one. */
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
