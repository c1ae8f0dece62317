import type { ServedLink } from '../../core/domain/link.ts'
import type { ServiceFacts } from '../../core/plugin/ports.ts'
import { MAX_OFFER_BYTES } from '../../core/x402/challenge.ts'
import type { Offer } from '../../core/x402/offers.ts'
import type { ResourceInfo } from '../../core/x402/types.ts'

/**
 * What a 402 says of the thing that is sold. Its address comes from the configured public URL, never from a request.
 * Where everything would make the offer's header too long to be read, the least important goes first: an unreadable offer
 * can't be paid.
 */
export function resourceOf(link: ServedLink, service: ServiceFacts, offers: readonly Offer[]): ResourceInfo {
  const description = link.description === '' ? link.title : link.description
  const needed = {
    url: `${service.publicUrl}/api/link/${link.username}/${link.isStealth ? link.privateSlug : link.slug}`,
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

/** What a value takes in the offer. */
export const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value))
