/** The parts of `/api/link/<seller>/<slug>[/rest][?query]`. */
export interface LinkTarget {
  /** `<seller>/<slug>`: the key of the route table. */
  readonly key: string
  /** Empty, or what follows the slug, with its leading slash; not decoded. */
  readonly subPath: string
  /** With its leading `?`, or empty; without the gateway's own `x402Version`. */
  readonly query: string
  /** The caller asked for the v1 form of the 402 by `?x402Version=1`. */
  readonly asksForV1: boolean
}

export const linkPrefix = '/api/link/'

/**
 * Takes a request target apart. One spelling of every path is served: what is priced is what is forwarded, so anything
 * that another reader could resolve to another path is refused, not repaired (RFC 3986, sections 3.3 and 5.2.4).
 *
 * @returns the parts; a string that says what is wrong; undefined when it is no address of a link
 */
export function parseTarget(url: string): LinkTarget | string | undefined {
  const mark = url.indexOf('?')
  const path = mark === -1 ? url : url.slice(0, mark)
  const problem = pathProblem(path) ?? queryProblem(url, mark)
  if (problem !== undefined) return problem
  const nameEnd = path.indexOf('/', linkPrefix.length)
  if (nameEnd === -1 || nameEnd === linkPrefix.length) return
  const slash = path.indexOf('/', nameEnd + 1)
  const slugEnd = slash === -1 ? path.length : slash
  if (slugEnd === nameEnd + 1) return
  const query = mark === -1 ? '' : url.slice(mark)
  const key = path.slice(linkPrefix.length, slugEnd)
  const subPath = path.slice(slugEnd)
  if (!query.includes('x402Version')) return { key, subPath, query, asksForV1: false }
  return { key, subPath, ...withoutVersion(query) }
}

/** Why a path has more than one reading; undefined when it has not. */
export function pathProblem(path: string): string | undefined {
  let hasEscape = false
  let previous = 0
  for (let i = 0; i < path.length; i++) {
    const c = path.charCodeAt(i)
    if (c <= 0x20 || c >= 0x7f || c === 0x5c || c === 0x23)
      return 'Expected a path of printable ASCII without \\ and #.'
    if (c === 0x25) hasEscape = true
    else if (c === 0x2f && previous === 0x2f) return 'Expected a path without empty segments.'
    else if (c === 0x2e && previous === 0x2f && isDotSegment(path, i))
      return 'Expected a path without . and .. segments.'
    previous = c
  }
  return hasEscape ? escapeProblem(path) : undefined
}

function isDotSegment(path: string, at: number): boolean {
  const next = path.charCodeAt(at + 1)
  return endsSegment(next) || (next === 0x2e && endsSegment(path.charCodeAt(at + 2)))
}

/** The end, a slash, or the `;` of a path parameter, which some servers cut off before they resolve `..`. */
const endsSegment = (c: number) => Number.isNaN(c) || c === 0x2f || c === 0x3b

function escapeProblem(path: string): string | undefined {
  if (/%(?![0-9a-fA-F]{2})/.test(path)) return 'Expected two hexadecimal digits after each % of the path.'
  if (/%(?:2f|5c|2e|0|1|7f)/i.test(path)) {
    return 'Expected a path without escaped slashes, backslashes, dots and control characters.'
  }
  try {
    decodeURIComponent(path)
  } catch {
    return 'Expected escaped bytes of the path to be UTF-8.'
  }
}

function queryProblem(url: string, mark: number): string | undefined {
  if (mark === -1) return
  for (let i = mark; i < url.length; i++) {
    const c = url.charCodeAt(i)
    if (c <= 0x20 || c >= 0x7f || c === 0x23) return 'Expected a query of printable ASCII without #.'
  }
}

function withoutVersion(query: string): { query: string; asksForV1: boolean } {
  const parts = query.slice(1).split('&')
  const kept = parts.filter((part) => !part.startsWith('x402Version='))
  return {
    query: kept.length === 0 ? '' : `?${kept.join('&')}`,
    asksForV1: parts.includes('x402Version=1'),
  }
}
