/** One value, or a list of values. A request fits if it has one of them. */
export type OneOrMore = string | readonly string[]

/** The conditions of a rule. A request fits if it meets every condition that is set. */
export interface PriceConditions {
  readonly method?: OneOrMore
  /** The path after the link's address, such as `/render`. `/render/*` fits `/render` and every path below it. */
  readonly path?: OneOrMore
  /** Values by the name of a query parameter. */
  readonly query?: Readonly<Record<string, OneOrMore>>
  /** Values by the name of a header, in lower case. */
  readonly header?: Readonly<Record<string, OneOrMore>>
  /** Values by the JSON pointer (RFC 6901) of a value in a JSON body. */
  readonly body?: Readonly<Record<string, OneOrMore>>
}

export interface PriceRule {
  readonly when: PriceConditions
  /** Price in USDC as a decimal string, above zero. */
  readonly price: string
}

/** Prices by request. The first rule that fits the request decides. */
export interface PriceTable {
  readonly rules: readonly PriceRule[]
  /** The price of a request that fits no rule. Null if the seller does not sell such a request. */
  readonly otherwise: string | null
}

/** Prices that a price server of the seller states for each request. */
export interface PriceQuery {
  /** The URL of the price server. The gateway sends the facts of a request there, and expects the price in the response. */
  readonly url: string
  /** Names of the headers that the facts include, in lower case. */
  readonly headers: readonly string[]
  /** The highest price that the gateway accepts. */
  readonly max: string
  /** The price if the server states no valid price. Null if such a request is refused. */
  readonly fallback: string | null
}

/** Prices of language model tokens in USD per million tokens, as decimal strings. */
export interface TokenRates {
  readonly input: string
  readonly output: string
  /** Price of input tokens that the model read from its cache. The price of `input` if absent. */
  readonly cached?: string
}

/**
 * How the gateway finds out what a call has cost.
 *
 * - `header`: the seller's API states it in the response header `Settlement-Overrides`.
 * - `tokens`: the gateway reads the token counts in a response in the form of OpenAI, Anthropic or Gemini.
 * - `bytes`: USD per million bytes of the response's body.
 * - `seconds`: USD per second from the request to the end of the response.
 * - `pointer`: the number at a JSON pointer (RFC 6901) of the response, times `each` in USD.
 */
export type UseMeasure =
  | 'header'
  | { readonly tokens: TokenRates }
  | { readonly bytes: string }
  | { readonly seconds: string }
  | { readonly pointer: string; readonly each: string }

/** A price by use. The buyer authorizes `upTo`, and is charged for what the call has used. */
export interface UsePrice {
  /** The most that a call costs, in USDC. */
  readonly upTo: string
  readonly by: UseMeasure
  /** What a call costs if its use is not known, in USDC. From `0` to `upTo`. */
  readonly otherwise: string
  /**
   * True if the buyer gets the response as it arrives, and is charged at its end. If false, the gateway holds the response until
   * the buyer is charged.
   */
  readonly stream: boolean
}

/** How the price of a link depends on the request or on what the call has used. */
export type Pricing = PriceTable | PriceQuery | UsePrice

export const isQueried = (pricing: Pricing): pricing is PriceQuery => 'url' in pricing
export const isByUse = (pricing: Pricing): pricing is UsePrice => 'upTo' in pricing

/** The price of a link, as lists show it. */
interface ListedPrice {
  readonly price: string
  readonly priceMax: string | null
}

/** A price for people and agents, such as `0.01`, or `from 0.01 to 0.05` or `up to 0.05` if it depends on the request. */
export function priceText({ price, priceMax }: ListedPrice): string {
  if (priceMax === null) return price
  return priceMax === price ? `up to ${price}` : `from ${price} to ${priceMax}`
}

/** The conditions of a rule in words, such as `POST, path /render/*, query size = large or huge`. */
export function conditionText({ method, path, query, header, body }: PriceConditions): string {
  const words = (values: OneOrMore) => (typeof values === 'string' ? values : values.join(' or '))
  const named = (part: string, values: Readonly<Record<string, OneOrMore>> = {}) =>
    Object.entries(values).map(([name, value]) => `${part} ${name} = ${words(value)}`)
  return [
    ...(method === undefined ? [] : [words(method)]),
    ...(path === undefined ? [] : [`path ${words(path)}`]),
    ...named('query', query),
    ...named('header', header),
    ...named('body', body),
  ].join(', ')
}

/** What a call costs by a measure, in words, such as `3 per million input tokens, 15 per million output tokens`. */
export function measureText(by: UseMeasure): string {
  if (by === 'header') return 'the amount that the API states in its response'
  if ('bytes' in by) return `${by.bytes} per million bytes of the response`
  if ('seconds' in by) return `${by.seconds} per second`
  if ('pointer' in by) return `${by.each} times ${by.pointer} of the response`
  const { input, output, cached } = by.tokens
  return [
    `${input} per million input tokens`,
    ...(cached === undefined ? [] : [`${cached} per million cached input tokens`]),
    `${output} per million output tokens`,
  ].join(', ')
}

/**
 * The lowest and the highest price. The lowest price of a price server and of a price by use is not known, so both are the highest
 * price.
 */
export function priceRange(pricing: Pricing): {
  readonly price: string
  readonly priceMax: string
} {
  if (isQueried(pricing)) return { price: pricing.max, priceMax: pricing.max }
  if (isByUse(pricing)) return { price: pricing.upTo, priceMax: pricing.upTo }
  const prices = pricing.rules.map(({ price }) => price)
  if (pricing.otherwise !== null) prices.push(pricing.otherwise)
  prices.sort((a, b) => compareDecimals(a, b))
  return { price: prices[0]!, priceMax: prices.at(-1)! }
}

/** Compares two decimals that have no leading zeros. It compares texts, because a JavaScript number would be rounded. */
function compareDecimals(a: string, b: string): number {
  const [wholeA = '', fractionA = ''] = a.split('.')
  const [wholeB = '', fractionB = ''] = b.split('.')
  if (wholeA.length !== wholeB.length) return wholeA.length - wholeB.length
  const [left, right] = [wholeA + fractionA.padEnd(18, '0'), wholeB + fractionB.padEnd(18, '0')]
  return left < right ? -1 : left > right ? 1 : 0
}
