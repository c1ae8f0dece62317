import { type Fact, folded, foldedName, shown, Unclear } from './ambiguity.ts'

/** A path in two readings. `exact` is decoded once. `lenient` is how the most lenient server reads the path. */
export interface PathReadings {
  readonly exact: string
  readonly lenient: string
}

/**
 * Reads a path. The path is unclear if a server that decodes it again, or that removes path parameters first, would find a `..`.
 *
 * @param subPath not decoded, without `..` and `//`. It is empty or begins with `/`. Its escapes are valid UTF-8
 */
export function readPath(subPath: string): PathReadings | Unclear {
  const exact = decodeURIComponent(subPath) || '/'
  return /[/\\]\.{1,2}(?:[/\\;\0]|$)/.test(decodedAgain(exact))
    ? new Unclear('Expected a path without . and .. segments, got one in an encoded form.')
    : { exact, lenient: lenientPath(exact) }
}

/**
 * A path without the parts that some servers ignore. These are case, path parameters (`;v=1`), a second percent-encoding, and
 * slashes, spaces and dots at the end.
 */
export function lenientPath(path: string): string {
  const plain = decodedAgain(path)
    .replace(/;[^/]*/g, '')
    .replace(/\/{2,}/g, '/')
  // A regular expression for the end would need quadratic time for a long row of dots that does not end the path.
  let end = plain.length
  while (end > 0 && '/. '.includes(plain[end - 1]!)) end--
  return folded(plain.slice(0, end)) || '/'
}

/** Decodes a text up to three more times, because some servers decode twice or more often. */
export function decodedAgain(text: string): string {
  let present = text
  for (let left = 3; left > 0 && present.includes('%'); left--) present = lenientlyDecoded(present)
  return present
}

/** Decodes every valid escape and keeps the others, as PHP does. Bytes that are not UTF-8 become U+FFFD. */
const lenientlyDecoded = (text: string): string =>
  text.replace(/(?:%[\da-f]{2})+/gi, (escapes) => Buffer.from(escapes.replaceAll('%', ''), 'hex').toString())

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/**
 * The name of a query parameter as the most lenient framework reads it. PHP, Rails and qs read `size[]` and `[size]` as `size`, PHP
 * reads `a.b` and `a b` as `a_b`, and ASP.NET ignores case.
 */
export const lenientParameter = (name: string): string =>
  plainName(name.split(/[[\]]/).find((part) => part !== '') ?? '')

/** Another lenient reading of a name. PHP reads a `[` without a `]` as `_`, so `a[b` is `a_b`. */
const withoutBrackets = (name: string): string => plainName(name.replace(/[[\]]/g, ''))

const plainName = (name: string): string => foldedName(name).replace(/[. ]/g, '')

/** Whether a query names a method. Laravel and Symfony serve a POST with such a query as this method. */
export const namesMethod = (query: string): boolean =>
  /[?&;]\s*_method(?:[=&;[\]\0]|$)/i.test(decodedAgain(query.replaceAll('+', ' ')))

/**
 * The values of the named parameters, by name. A parameter is unclear if it occurs twice, or if its name has another spelling.
 *
 * @param query with its leading `?`, or empty
 * @param names the parameters that decide a price. The key of a name is its {@link lenientParameter} reading
 */
export function readQuery(query: string, names: ReadonlyMap<string, string>): ReadonlyMap<string, Fact> {
  const values = new Map<string, Fact>()
  if (query.length < 2) return values
  for (const part of query.slice(1).split('&')) {
    // Old parsers also separate parameters by semicolons.
    const pieces = part.split(';')
    for (const piece of pieces) {
      const mark = piece.indexOf('=')
      const rawName = mark === -1 ? piece : piece.slice(0, mark)
      const name = formDecoded(rawName)
      const lenient = decodedAgain(name ?? rawName.replaceAll('+', ' '))
      const known =
        names.get(lenientParameter(lenient)) ??
        (lenient.includes('[') ? names.get(withoutBrackets(lenient)) : undefined)
      if (known === undefined) continue
      const value = formDecoded(mark === -1 ? '' : piece.slice(mark + 1))
      values.set(known, parameterOf(known, name, value, pieces.length, values.has(known)))
    }
  }
  return values
}

function parameterOf(
  known: string,
  name: string | undefined,
  value: string | undefined,
  pieces: number,
  isTwice: boolean,
): Fact {
  const expected = `Expected the query parameter ${shown(known)}`
  if (isTwice) return new Unclear(`${expected} once, got it twice.`)
  if (name !== known) return new Unclear(`${expected} under this name, got another spelling.`)
  if (pieces > 1) return new Unclear(`${expected} without a semicolon. Encode it as %3B.`)
  if (value === undefined || /\p{Cc}/u.test(value))
    return new Unclear(`${expected} as UTF-8 text without control characters.`)
  return value
}

/** Decodes a name or value of a query. @returns undefined for an invalid escape, because readers decode it differently */
const formDecoded = (text: string): string | undefined => decoded(text.replaceAll('+', ' '))
