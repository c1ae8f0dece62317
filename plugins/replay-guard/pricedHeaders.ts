import { hash } from 'node:crypto'
import { isByUse, isQueried, type Pricing } from '../../core/domain/pricing.ts'
import { alike } from '../../core/http/headerNames.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'

/** Stands between a call and its priced headers in a stored call. No hash and no mark contains it. */
const SEPARATOR = ';'
const DIGEST_CHARS = 22

/** Names of the headers that decide a price of the link, in lower case. Empty if no price depends on a header. */
export function pricedHeadersOf(pricing: Pricing | null): readonly string[] {
  if (pricing === null || isByUse(pricing)) return []
  if (isQueried(pricing)) return [...pricing.headers].sort()
  return [...new Set(pricing.rules.flatMap(({ when }) => Object.keys(when.header ?? {})))].sort()
}

/**
 * Adds the headers that decide the price of a call to the stored form of the call, which has only method, path, query and body. The
 * stored form names the headers, so that a repeat is compared by the headers of its first call even if the seller has changed the
 * prices since.
 */
export const withPricedHeaders = (bought: string, names: readonly string[], x: Exchange): string =>
  names.length === 0 ? bought : `${bought}${SEPARATOR}${names.join()}=${digestOf(names, x)}`

/** Whether a call has the same priced headers as the stored call. */
export function hasSamePricedHeaders(stored: string, x: Exchange): boolean {
  const at = stored.indexOf(SEPARATOR)
  if (at === -1) return true
  const [names = '', rest = ''] = stored.slice(at + 1).split('=')
  return rest.slice(0, DIGEST_CHARS) === digestOf(names.split(','), x)
}

/** A stored call without its priced headers. */
export const withoutPricedHeaders = (stored: string): string => stored.split(SEPARATOR, 1)[0]!

function digestOf(names: readonly string[], { transport: { rawHeaders } }: Exchange): string {
  const values: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = alike(rawHeaders[i]!)
    if (names.includes(name)) values.push(name, rawHeaders[i + 1]!.trim())
  }
  return hash('sha256', JSON.stringify(values), 'base64url').slice(0, DIGEST_CHARS)
}
