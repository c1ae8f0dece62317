import { parseAmount } from '../domain/money.ts'
import type { OneOrMore, PriceRule, PriceTable } from '../domain/pricing.ts'
import { TollgateError } from '../errors/error.ts'
import { alike } from '../http/headerNames.ts'
import { type Fact, folded, shown, Unclear } from './ambiguity.ts'
import { type JsonBody, type Pointer, pointerOf, readJsonBody, readPointer } from './bodyFacts.ts'
import { readHeaders } from './headerFacts.ts'
import {
  decodedAgain,
  lenientParameter,
  lenientPath,
  namesMethod,
  type PathReadings,
  readPath,
  readQuery,
} from './targetFacts.ts'

/** The parts of a request on which a price can depend. The seller's API gets exactly these parts. */
export interface PricedRequest {
  readonly method: string
  /** The path after the link's address, without `..` and `//`. It is empty or begins with `/`. */
  readonly subPath: string
  /** The query with its leading `?`, or empty. */
  readonly query: string
  /** Header names and values in turn. */
  readonly rawHeaders: readonly string[]
  readonly body: Uint8Array | null
}

/** Values of a condition, as the seller wrote them (`exact`) and as the most lenient reader compares them (`lenient`). */
interface Values {
  readonly exact: ReadonlySet<string>
  readonly lenient: ReadonlySet<string>
}

interface PathPattern extends PathReadings {
  readonly isPrefix: boolean
}

interface Rule {
  readonly price: string
  readonly methods: ReadonlySet<string> | null
  /** If empty, the rule fits every path. */
  readonly paths: readonly PathPattern[]
  readonly query: readonly (readonly [string, Values])[]
  readonly header: readonly (readonly [string, Values])[]
  readonly body: readonly (readonly [Pointer, Values])[]
}

interface Facts {
  readonly method: string | Unclear
  /** Null if no price depends on the path. */
  readonly path: PathReadings | Unclear | null
  readonly query: ReadonlyMap<string, Fact>
  readonly header: ReadonlyMap<string, Fact>
  readonly body: JsonBody | undefined
}

/** Whether a request fits a rule. It is a text if readers could decide differently, and the text is the reason. */
type Fit = boolean | string

/**
 * A price table, compiled once for each version of a link.
 *
 * The table also compares each condition as the most lenient server would read the request, for example without case and without a
 * slash at the end of the path. If a rule fits only for such a server, either this rule or a later rule could decide. If the prices
 * of these rules differ, the request is refused. So an unusual spelling that the seller's API understands never lowers the price.
 */
export class CompiledTable {
  /** Whether a price depends on the body. If so, the gateway reads the body before the call is paid. */
  readonly needsBody: boolean
  readonly #rules: readonly Rule[]
  readonly #otherwise: string | null
  readonly #parameters: ReadonlyMap<string, string>
  readonly #headers: ReadonlyMap<string, string>
  readonly #hasPaths: boolean
  readonly #hasMethods: boolean

  constructor({ rules, otherwise }: PriceTable) {
    // Equal amounts get equal texts, so that prices can be compared.
    const texts = new Map<bigint, string>()
    const textOf = (price: string): string => {
      const amount = parseAmount(price, 18)
      const known = texts.get(amount)
      if (known === undefined) texts.set(amount, price)
      return known ?? price
    }
    this.#rules = rules.map((rule) => compiled(rule, textOf(rule.price)))
    this.#otherwise = otherwise === null ? null : textOf(otherwise)
    this.#hasMethods = this.#rules.some(({ methods }) => methods !== null)
    this.#hasPaths = this.#rules.some(({ paths }) => paths.length > 0)
    this.needsBody = this.#rules.some(({ body }) => body.length > 0)
    const names = (part: 'query' | 'header', spelling: (name: string) => string) =>
      new Map(this.#rules.flatMap((rule) => rule[part].map(([name]) => [spelling(name), name] as const)))
    this.#parameters = names('query', lenientParameter)
    this.#headers = names('header', alike)
  }

  /**
   * The price of the first rule that fits the request.
   *
   * @returns null if the seller does not sell such a request
   * @throws `ambiguous_request` if the request can be read in two ways with different prices
   * @throws `unsupported_encoding` for a compressed body
   */
  priceOf(request: PricedRequest): string | null {
    const facts: Facts = {
      method: this.#hasMethods ? readMethod(request) : request.method,
      path: this.#hasPaths ? readPath(request.subPath) : null,
      query: this.#parameters.size === 0 ? none : readQuery(request.query, this.#parameters),
      header: this.#headers.size === 0 ? none : readHeaders(request.rawHeaders, this.#headers),
      body: this.needsBody ? readJsonBody(request.body, request.rawHeaders) : undefined,
    }
    let possible: string | null | undefined
    let problem = ''
    for (const rule of this.#rules) {
      const fit = fitOf(rule, facts)
      if (fit === false) continue
      if (possible !== undefined && possible !== rule.price) throw ambiguous(problem, possible, rule.price)
      if (fit === true) return rule.price
      possible = rule.price
      problem ||= fit
    }
    const otherwise = this.#otherwise
    if (possible !== undefined && possible !== otherwise) throw ambiguous(problem, possible, otherwise)
    return otherwise
  }
}

/** HEAD has the price of GET, because it requests the same response without its body (RFC 9110, section 9.3.2). */
function readMethod({ method, query }: PricedRequest): string | Unclear {
  if (method === 'POST' && namesMethod(query))
    return new Unclear('Expected a method, got another one in the query parameter _method.')
  return method === 'HEAD' ? 'GET' : method
}

const none: ReadonlyMap<string, Fact> = new Map()

const ambiguous = (problem: string, a: string | null, b: string | null): TollgateError =>
  new TollgateError(
    'ambiguous_request',
    `This request can be read in two ways, with the prices ${named(a)} and ${named(b)}. ${problem} You were not charged.`,
  )

const named = (price: string | null): string => (price === null ? 'none (not sold)' : `${price} USDC`)

function compiled({ when }: PriceRule, price: string): Rule {
  const { method, path, query = {}, header = {}, body = {} } = when
  const twice = (text: string) => folded(decodedAgain(text))
  return {
    price,
    methods: method === undefined ? null : new Set(listOf(method)),
    paths: path === undefined ? [] : listOf(path).map(patternOf),
    query: Object.entries(query).map(([name, values]) => [name, valuesOf(values, twice)]),
    header: Object.entries(header).map(([name, values]) => [name.toLowerCase(), valuesOf(values, folded)]),
    body: Object.entries(body).map(([pointer, values]) => [pointerOf(pointer), valuesOf(values, folded)]),
  }
}

const listOf = (values: OneOrMore): readonly string[] => (typeof values === 'string' ? [values] : values)

function valuesOf(given: OneOrMore, lenient: (value: string) => string): Values {
  const values = listOf(given)
  return { exact: new Set(values), lenient: new Set(values.map(lenient)) }
}

/** Compiles a path. @param given may be percent-encoded, and may end with `*` */
function patternOf(given: string): PathPattern {
  const isPrefix = given.endsWith('*')
  const exact = decodeURIComponent(isPrefix ? given.slice(0, -1) : given)
  return { exact, lenient: isPrefix ? folded(decodedAgain(exact)) : lenientPath(exact), isPrefix }
}

function fitOf(rule: Rule, { method, path, query, header, body }: Facts): Fit {
  let fit = both(methodFit(rule.methods, method), pathFit(rule.paths, path))
  for (const [name, values] of rule.query) {
    if (fit === false) return false
    const value = query.get(name)
    fit = both(fit, valueFit(value, values, `the query parameter ${shown(name)}`, decodedAgain))
  }
  for (const [name, values] of rule.header) {
    if (fit === false) return false
    const value = header.get(name)
    fit = both(fit, listFit(value, values, name) ?? valueFit(value, values, `the header ${shown(name)}`))
  }
  for (const [pointer, values] of rule.body) {
    if (fit === false || body === undefined) return false
    const value = readPointer(body, pointer, values.lenient)
    fit = both(fit, valueFit(value, values, `${shown(`/${pointer.join('/')}`)} of the body`))
  }
  if (fit === true && rule.body.length > 0 && body?.isDeclared === false)
    return 'Expected the header Content-Type: application/json for a JSON body.'
  return fit
}

const both = (a: Fit, b: Fit): Fit => (a === false || b === false ? false : a === true ? b : a)

function valueFit(value: Fact, values: Values, what: string, decode = (text: string) => text): Fit {
  if (value === undefined) return false
  if (value instanceof Unclear) return value.problem
  if (values.exact.has(value)) return true
  return values.lenient.has(folded(decode(value)))
    ? `Expected ${what} with the exact text of a price's condition, got it in another spelling.`
    : false
}

/** Decides about a header with a list of values, because only some readers split lists. Undefined if the header is no such list. */
function listFit(value: Fact, { lenient }: Values, name: string): Fit | undefined {
  if (typeof value !== 'string' || !value.includes(',') || lenient.has(folded(value))) return undefined
  if (!value.split(',').some((part) => lenient.has(folded(part)))) return undefined
  return `Expected the header ${shown(name)} with one value, got a list.`
}

function methodFit(methods: ReadonlySet<string> | null, method: string | Unclear): Fit {
  if (methods === null) return true
  return method instanceof Unclear ? method.problem : methods.has(method)
}

function pathFit(patterns: readonly PathPattern[], path: PathReadings | Unclear | null): Fit {
  if (patterns.length === 0 || path === null) return true
  if (path instanceof Unclear) return path.problem
  if (patterns.some((pattern) => isAt(pattern, path, 'exact'))) return true
  return patterns.some((pattern) => isAt(pattern, path, 'lenient'))
    ? "Expected the exact path of a price's condition, got it in another spelling. Case counts, and so does a / at the end."
    : false
}

function isAt(pattern: PathPattern, path: PathReadings, reading: keyof PathReadings): boolean {
  const [wanted, given] = [pattern[reading], path[reading]]
  if (!pattern.isPrefix) return given === wanted
  // `/render/*` includes `/render`, because many servers do not distinguish `/render` from `/render/`.
  return given.startsWith(wanted) || `${given}/` === wanted
}
