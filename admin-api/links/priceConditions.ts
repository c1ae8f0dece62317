import { childPointer, displayPath } from '../../core/config/read/pointer.ts'
import type { Link } from '../../core/domain/link.ts'
import { isByUse, isQueried, type OneOrMore, type PriceConditions } from '../../core/domain/pricing.ts'
import type { ErrorDetail } from '../../core/errors/error.ts'
import { alike, isDroppedFromRequest } from '../../core/http/headerNames.ts'
import { folded } from '../../core/pricing/ambiguity.ts'
import { lenientParameter } from '../../core/pricing/targetFacts.ts'

const MAX_PATH_CHARS = 256

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/**
 * The problems of the conditions of a rule.
 *
 * @param pointer the JSON pointer of the conditions in the request body
 * @param root the price that contains the rule
 */
export function problemsOf(when: PriceConditions, pointer: string, root: object): ErrorDetail[] {
  const problems: ErrorDetail[] = []
  const refuse = (at: string, code: string, message: string) =>
    problems.push({ path: displayPath(at, { price: root }), code, message })
  const { method, path, query = {}, header = {}, body = {} } = when
  for (const name of listOf(method))
    if (!methods.includes(name))
      refuse(childPointer(pointer, 'method'), 'not_allowed', `Expected ${methods.join(', ')}.`)
  for (const one of listOf(path)) {
    const problem = pathProblem(one)
    if (problem !== undefined) refuse(childPointer(pointer, 'path'), 'format', problem)
  }
  const named: readonly [string, Readonly<Record<string, OneOrMore>>, NameCheck][] = [
    ['query', query, parameterProblem],
    ['header', header, headerProblem],
    ['body', body, pointerProblem],
  ]
  for (const [part, values, problemOf] of named) {
    const at = childPointer(pointer, part)
    if (part in when && Object.keys(values).length === 0)
      refuse(at, 'required', 'Expected at least one name. Remove this condition if every request meets it.')
    for (const name of Object.keys(values)) {
      const problem = problemOf(name)
      if (problem !== undefined) refuse(childPointer(at, name), 'name', problem)
    }
  }
  if (new Set(Object.keys(header).map(alike)).size < Object.keys(header).length)
    refuse(childPointer(pointer, 'header'), 'duplicate', 'Expected each header once. Case does not matter.')
  for (const [name, values] of Object.entries(header))
    for (const value of listOf(values))
      if (!/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value))
        refuse(
          childPointer(childPointer(pointer, 'header'), name),
          'format',
          'Expected the value of a header as printable ASCII without spaces at its ends.',
        )
  return problems
}

const listOf = (values: OneOrMore | undefined): readonly string[] =>
  values === undefined ? [] : typeof values === 'string' ? [values] : values

function pathProblem(path: string): string | undefined {
  const plain = path.endsWith('*') ? path.slice(0, -1) : path
  if (!plain.startsWith('/') || path.length > MAX_PATH_CHARS)
    return `Expected a path of at most ${MAX_PATH_CHARS} characters that begins with /, such as /render or /render/*.`
  let decoded: string
  try {
    decoded = decodeURIComponent(plain)
  } catch {
    return 'Expected a path whose percent-encoded bytes are UTF-8.'
  }
  if (/[*?#;\\\p{Cc}]/u.test(decoded))
    return 'Expected a path without ?, #, ;, \\ and control characters, and with * only at its end.'
  if (/\/\/|\/\.{1,2}(?:\/|$)/.test(decoded))
    return 'Expected a path without empty segments, . and .. segments.'
}

type NameCheck = (name: string) => string | undefined

const parameterProblem: NameCheck = (name) =>
  /^[^[\]&=;+%\p{Cc}]{1,64}$/u.test(name) && lenientParameter(name) !== ''
    ? undefined
    : 'Expected the name of a query parameter, decoded and at most 64 characters, without [ ] & = ; + and %.'

/** The reason why a header cannot decide a price. Undefined if the header can. */
export function headerProblem(name: string): string | undefined {
  if (!/^[A-Za-z0-9-]{1,64}$/.test(name))
    return 'Expected the name of a header: at most 64 letters, digits and -.'
  const lower = name.toLowerCase()
  const isUnseen =
    isDroppedFromRequest(lower) ||
    ['accept-encoding', 'content-encoding', 'content-length', 'cdn-loop'].includes(lower)
  return isUnseen
    ? `The gateway sets or removes the header ${lower}, so your API does not get the buyer's value. Use another header.`
    : undefined
}

/** The reason why a text is no JSON pointer that Tollgate supports. Undefined if it is one. */
export const pointerProblem: NameCheck = (name) =>
  /^(?:\/(?:[^~/]|~[01])+){1,16}$/u.test(name) && name.length <= 256
    ? undefined
    : 'Expected a JSON pointer (RFC 6901) such as /model or /options/size, at most 256 characters.'

/**
 * The reasons why the price of a link conflicts with the other fields of the link.
 *
 * @param ownHeaders names of the headers that the link adds to each request
 */
export function pricingProblems(
  { pricing, linkType, url, settle }: Pick<Link, 'pricing' | 'linkType' | 'url' | 'settle'>,
  ownHeaders: readonly string[],
): ErrorDetail[] {
  if (pricing === null) return []
  const problem = (message: string): ErrorDetail => ({ path: 'price', code: 'conflict', message })
  if (linkType === 'standard')
    return [
      problem('A standard link is bought once, so it has one price. Send the price as a decimal string.'),
    ]
  if (isByUse(pricing))
    return settle === 'after'
      ? []
      : [
          problem(
            'A price by use is known only after the response. Set settle to after, or send one price. For a streamed response, set price.stream to true.',
          ),
        ]
  const parameters = new Map<string, string>()
  const headers = new Set<string>()
  if (isQueried(pricing)) for (const name of pricing.headers) headers.add(alike(name))
  for (const { when } of isQueried(pricing) ? [] : pricing.rules) {
    for (const name of Object.keys(when.query ?? {})) {
      const other = parameters.get(lenientParameter(name))
      if (other !== undefined && other !== name)
        return [
          problem(`The query parameters ${other} and ${name} are the same for many servers. Use one name.`),
        ]
      parameters.set(lenientParameter(name), name)
    }
    for (const name of Object.keys(when.header ?? {})) headers.add(alike(name))
  }
  const inUrl = [...new URL(url).searchParams.keys()].find((name) => parameters.has(lenientParameter(name)))
  if (inUrl !== undefined)
    return [
      problem(
        `The url of the link sets the query parameter ${inUrl}, so a buyer's value cannot decide the price.`,
      ),
    ]
  const added = ownHeaders.find((name) => headers.has(alike(name)))
  if (added !== undefined)
    return [
      problem(
        `The upstreamHeaders of the link set ${folded(added)}, so a buyer's value cannot decide the price.`,
      ),
    ]
  return []
}
