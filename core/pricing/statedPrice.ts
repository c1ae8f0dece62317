import { parseAmount } from '../domain/money.ts'
import { isTollgateError } from '../errors/error.ts'
import type { EgressResponse } from '../ports/egress.ts'
import { isObject, own, parseBody } from '../x402/strictJson.ts'

/** Decimals of USDC, on every network. */
const ASSET_DECIMALS = 6
/** Maximum size of the response of a seller's price server, in bytes. */
export const MAX_PRICE_RESPONSE_BYTES = 4_096
/** Maximum time for which the gateway reuses a stated price, in seconds. */
const MAX_AGE_SECONDS = 86_400

/** A price that a seller's price server has stated. */
export interface StatedPrice {
  readonly price: string
  /** How long other requests with the same facts get this price without another request to the server, in ms. */
  readonly freshMs: number
}

/**
 * Reads the response of a seller's price server: `{"amount":"0.012"}`.
 *
 * @param max the highest price that is accepted
 * @returns the price, or a text for the log that says what is wrong with the response
 */
export function readStatedPrice(
  { status, headers, body }: EgressResponse,
  max: string,
): StatedPrice | string {
  if (status !== 200) return `status ${status}`
  const parsed = parseBody(body)
  if (!parsed.ok || !isObject(parsed.value)) return 'not a JSON object'
  const amount = own(parsed.value, 'amount')
  if (typeof amount !== 'string') return 'amount is not a string'
  const atomic = atomicOf(amount)
  if (atomic === undefined) return 'amount is not a decimal string with at most 6 decimals'
  if (atomic === 0n) return 'amount is 0'
  if (atomic > parseAmount(max, ASSET_DECIMALS)) return 'amount is above the maximum of the link'
  return { price: amount, freshMs: maxAgeOf(headers['cache-control']) * 1_000 }
}

function atomicOf(text: string): bigint | undefined {
  try {
    return parseAmount(text, ASSET_DECIMALS)
  } catch (error) {
    if (isTollgateError(error)) return undefined
    throw error
  }
}

/** `max-age` in seconds (RFC 9111, section 5.2.2.1). 0 if the response must not be stored, or has no `max-age`. */
function maxAgeOf(given: string | readonly string[] | undefined): number {
  const directives = [given ?? []].flat().join(',').toLowerCase()
  if (/(?:^|,)\s*no-(?:store|cache)\s*(?:,|$)/.test(directives)) return 0
  const age = /(?:^|,)\s*max-age\s*=\s*"?(\d{1,12})"?\s*(?:,|$)/.exec(directives)?.[1]
  return age === undefined ? 0 : Math.min(Number(age), MAX_AGE_SECONDS)
}
