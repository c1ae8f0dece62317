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

/** One link of each kind that gets a program of its own: what the order check and `tollgate check` look at. */
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
 * What stands in the place of a link where there is none any more, for calls that come with a payment: it may have bought
 * something while there was one. Nothing can be bought of it.
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
 * A link of each kind whose address matches a pattern of `when.links`. Of patterns that overlap only in part, what is in
 * both is not among them: that shows when the link itself is compiled.
 *
 * @example linksMatching('alice/*')[0] // alice/any, free
 */
export function linksMatching(pattern: string): ServedLink[] {
  const filled = pattern.includes('/') ? pattern : pattern.replace(/\*(?!.*\*)/, '*/*')
  const address = filled.replaceAll('*', 'any')
  const slash = address.indexOf('/')
  // Neither a slash nor a star to stand for one: no link's address.
  if (slash === -1) return []
  const [username, slug] = [address.slice(0, slash), address.slice(slash + 1)]
  return prototypeLinks.map((link) => ({ ...link, username, slug, title: `${link.title} of ${pattern}` }))
}
