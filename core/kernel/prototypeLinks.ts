import type { ServedLink } from '../domain/link.ts'

const prototype: ServedLink = {
  id: '00000000-0000-0000-0000-000000000000',
  storeId: '00000000-0000-0000-0000-000000000000',
  username: '(any)',
  url: 'http://seller.invalid/',
  title: 'a free link',
  description: '',
  slug: 'free',
  price: '0',
  priceMax: null,
  pricing: null,
  isPublic: false,
  isActive: true,
  linkType: 'api',
  isStealth: false,
  privateSlug: null,
  webhookUrl: null,
  methods: [],
  inputSchema: null,
  outputExample: null,
  tags: [],
  iconUrl: null,
  responseMode: 'wrap',
  settle: 'after',
  access: null,
  upstreamHeadersSealed: null,
  origin: null,
  suspension: null,
  createdAtMs: 0,
  updatedAtMs: 0,
  version: 1,
  payout: {
    base: '0x000000000000000000000000000000000000dEaD',
    solana: '4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T',
  },
}

/** Links with all the different pipelines, one for each, for the order check and `tollgate check`. */
export const prototypeLinks: readonly ServedLink[] = [
  prototype,
  { ...prototype, title: 'a paid link', slug: 'paid', price: '0.10' },
  {
    ...prototype,
    title: 'a paid link that settles first',
    slug: 'settle-first',
    price: '0.10',
    settle: 'before',
  },
]

/**
 * Stands for a link that no longer exists, in calls with a payment that may have bought something while the link existed. It sells
 * nothing new.
 */
export const noLink: ServedLink = {
  ...prototype,
  title: 'no link',
  slug: 'none',
  price: '0.10',
  isActive: false,
  payout: { base: null, solana: null },
}

/**
 * One link of each kind whose address matches a pattern of `when.links`. It does not cover addresses that match two overlapping
 * patterns. A problem of such an address appears only when a link with that address is compiled.
 *
 * @example linksMatching('alice/*')[0] // alice/any, free
 */
export function linksMatching(pattern: string): ServedLink[] {
  const filled = pattern.includes('/') ? pattern : pattern.replace(/\*(?!.*\*)/, '*/*')
  const address = filled.replaceAll('*', 'any')
  const slash = address.indexOf('/')
  // The pattern matches no address, because it has neither a slash nor a star that could match a slash.
  if (slash === -1) return []
  const [username, slug] = [address.slice(0, slash), address.slice(slash + 1)]
  return prototypeLinks.map((link) => ({ ...link, username, slug, title: `${link.title} of ${pattern}` }))
}
