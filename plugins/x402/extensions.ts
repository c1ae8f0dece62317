import type { ServedLink } from '../../core/domain/link.ts'
import { type BazaarExtension, bazaarOf, withoutWords } from '../../core/x402/bazaar.ts'
import { MAX_OFFER_BYTES } from '../../core/x402/challenge.ts'
import type { Offer } from '../../core/x402/offers.ts'
import type { ResourceInfo } from '../../core/x402/types.ts'
import { bytesOf } from './resource.ts'

export type Extensions = {
  readonly bazaar: BazaarExtension
}

/** Most bytes of the extension's JSON: clients send it back with the payment, whose header has to be read here, too. */
const MAX_EXTENSION_BYTES = 4_000

/**
 * Most bytes of what its schema says in words (titles, descriptions, examples): each unpaid call costs its buyer and the gateway as much.
 */
const MAX_WORDS_BYTES = 400

/**
 * What a 402 says of how the thing is called: the extension `bazaar`, which whoever settles or crawls may put into a public list.
 * So a link that the marketplace does not show has none.
 *
 * It goes before anything of the resource does, the words of its schema first and then the example of an answer: what does not fit
 * stands in `/discovery/resources` and in the store's OpenAPI document, whole.
 */
export function extensionsOf(
  link: ServedLink,
  resource: ResourceInfo,
  offers: readonly Offer[],
): Extensions | undefined {
  if (!link.isPublic || link.isStealth) return undefined
  const taken = bytesOf(offers.map(({ terms }) => terms)) + bytesOf(resource)
  const room = Math.min(MAX_EXTENSION_BYTES, MAX_OFFER_BYTES - taken)
  const { methods, inputSchema, outputExample } = link
  for (const example of [outputExample, null]) {
    const bazaar = brief(bazaarOf({ methods, inputSchema, outputExample: example }))
    if (bytesOf({ bazaar }) <= room) return { bazaar }
  }
  return undefined
}

function brief(bazaar: BazaarExtension): BazaarExtension {
  const schema = withoutWords(bazaar.schema)
  return bytesOf(bazaar.schema) - bytesOf(schema) > MAX_WORDS_BYTES ? { ...bazaar, schema } : bazaar
}
