import type { ServedLink } from '../../core/domain/link.ts'
import { type Described, MAX_OFFER_BYTES } from '../../core/offers/challenge.ts'
import { signedBytes } from '../../core/offers/offerSigning.ts'
import type { Offer } from '../../core/offers/offers.ts'
import type { ServiceFacts } from '../../core/plugin/ports.ts'
import { type BazaarExtension, bazaarOf, withoutWords } from '../../core/x402/bazaar.ts'
import { gasSponsoringName, gasSponsoringOffer } from '../../core/x402/gasSponsoring.ts'
import { identifierName, identifierOffer } from '../../core/x402/paymentIdentifier.ts'
import { isByPermit2, type ResourceInfo } from '../../core/x402/types.ts'

/** The address of a link, from the configured public URL. */
export const addressOf = (link: ServedLink, { publicUrl }: Pick<ServiceFacts, 'publicUrl'>): string =>
  `${publicUrl}/api/link/${link.username}/${link.isStealth ? link.privateSlug : link.slug}`

/**
 * The description of the sold link in a 402. Its address comes from the configured public URL, never from a request. If the offer's
 * header would be too long for clients to read, the least important parts are dropped first.
 */
export function resourceOf(link: ServedLink, service: ServiceFacts, offers: readonly Offer[]): ResourceInfo {
  const description = link.description === '' ? link.title : link.description
  const needed = {
    url: addressOf(link, service),
    description,
    mimeType: 'application/json',
    serviceName: service.name,
  }
  const icon = link.iconUrl === null ? {} : { iconUrl: link.iconUrl }
  const tags = link.tags.length === 0 ? {} : { tags: link.tags }
  const terms = bytesOf(offers.map((offer) => offer.terms))
  const candidates: readonly ResourceInfo[] = [
    { ...needed, ...tags, ...icon },
    { ...needed, ...tags },
    { ...needed, ...icon },
    needed,
  ]
  return (
    candidates.find((resource) => terms + bytesOf(resource) <= MAX_OFFER_BYTES) ?? {
      ...needed,
      description: Array.from(description).slice(0, 80).join(''),
    }
  )
}

/** The size of a value in the offer, in bytes. */
const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

type Extensions = {
  readonly [identifierName]: typeof identifierOffer
  readonly [gasSponsoringName]?: typeof gasSponsoringOffer
  readonly bazaar?: BazaarExtension
}

/**
 * Maximum size of the extensions' JSON, in bytes. Clients send the extensions back with the payment, and the gateway has to be able
 * to read that header.
 */
const MAX_EXTENSION_BYTES = 4_000

/**
 * Maximum size of the texts in the schema of `bazaar` (titles, descriptions, examples), in bytes, because every unpaid call
 * transfers them.
 */
const MAX_WORDS_BYTES = 400

/**
 * The extensions of a 402. `payment-identifier` lets a buyer give the payment an id. `eip2612GasSponsoring` lets a buyer allow Permit2
 * by a signature. `bazaar` describes how to call the link. Settlers
 * and crawlers may put `bazaar` into a public list, so a link that the marketplace does not show has none.
 *
 * If the header is too long, the extensions are dropped before any part of the resource. `bazaar` is dropped first, because its
 * complete description is also in `/discovery/resources` and in the store's OpenAPI document. The signed offers follow, and then
 * `payment-identifier`. Within `bazaar`, the texts of its schema are dropped first, then the example of a response.
 *
 * @param signs whether the gateway signs offers
 * @param fresh makes the extension that each response adds
 */
export function extensionsOf(
  link: ServedLink,
  resource: ResourceInfo,
  offers: readonly Offer[],
  signs: boolean,
  fresh: Described['fresh'],
): Omit<Described, 'resource'> {
  const signIn = fresh === undefined ? 0 : bytesOf(fresh())
  const taken = bytesOf(offers.map(({ terms }) => terms)) + bytesOf(resource) + signIn
  const room = Math.min(MAX_EXTENSION_BYTES, MAX_OFFER_BYTES - taken)
  const always = {
    [identifierName]: identifierOffer,
    ...(isSponsored(offers) && { [gasSponsoringName]: gasSponsoringOffer }),
  }
  if (bytesOf(always) > room) return {}
  const signed = signs ? signedBytes(resource.url, offers) + 1 : 0
  const isSigned = signs && bytesOf(always) + signed <= room
  const extensions = described(link, always, isSigned ? room - signed : room)
  return { extensions, isSigned }
}

/**
 * Whether buyers can allow Permit2 by a permit of the token. The extension counts for all offers, and clients fail on a token without
 * permits, so every token that is paid by Permit2 must have them.
 */
function isSponsored(offers: readonly Offer[]): boolean {
  const byPermit2 = offers.filter(({ terms }) => isByPermit2(terms))
  return (
    byPermit2.some(({ settler }) => settler.sponsorsAllowance === true) &&
    byPermit2.every(({ asset }) => asset.hasPermit === true)
  )
}

function described(link: ServedLink, always: Extensions, room: number): Extensions {
  if (!link.isPublic || link.isStealth) return always
  const { methods, inputSchema, outputExample } = link
  for (const example of [outputExample, null]) {
    const bazaar = brief(bazaarOf({ methods, inputSchema, outputExample: example }))
    const all = { bazaar, ...always }
    if (bytesOf(all) <= room) return all
  }
  return always
}

function brief(bazaar: BazaarExtension): BazaarExtension {
  const schema = withoutWords(bazaar.schema)
  return bytesOf(bazaar.schema) - bytesOf(schema) > MAX_WORDS_BYTES ? { ...bazaar, schema } : bazaar
}
