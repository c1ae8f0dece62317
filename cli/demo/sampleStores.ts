/** A store in the demo's marketplace: the seller's texts and links. */
export interface SampleStore {
  readonly username: string
  readonly displayName: string
  readonly bio: string
  readonly socials: readonly { readonly type: string; readonly url: string }[]
  /** SVG of 128 × 128 pixels. */
  readonly avatar: string
  readonly links: readonly SampleLink[]
}

export interface SampleLink {
  readonly slug: string
  readonly title: string
  readonly description: string
  /** Price in USDC, decimal string; 0 is free. */
  readonly price: string
  readonly tags: readonly string[]
  readonly method: 'GET' | 'POST'
  readonly properties: Readonly<Record<string, object>>
  readonly required: readonly string[]
  readonly answer: object
  /** Approximate number of calls per day. */
  readonly dailyCalls: number
  readonly reviews: readonly { readonly isPositive: boolean; readonly comment: string }[]
}

const avatarOf = (ground: string, drawing: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 128 128" width="128" height="128"><rect width="128" height="128" fill="${ground}"/><g fill="none" stroke="#fff" stroke-width="9" stroke-linecap="round" stroke-linejoin="round">${drawing}</g></svg>`

/** Avatar of the store whose calls the demo pays. */
export const demoAvatar = avatarOf(
  '#2f6fb0',
  '<circle cx="50" cy="50" r="17"/><path d="M50 15v-2M50 87v-2M15 50h-2M25 25l-1-1M75 25l1-1M25 75l-1 1M58 96h38a17 17 0 0 0 0-34 22 22 0 0 0-42-2"/>',
)

export const sampleStores: readonly SampleStore[] = [
  {
    username: 'northwind',
    displayName: 'Northwind Data',
    bio: 'Public registers and market data, cleaned every night.\nIn business since 2019.',
    socials: [
      { type: 'website', url: 'https://northwind.example/' },
      { type: 'github', url: 'https://github.com/northwind-example' },
      { type: 'x', url: 'https://x.com/northwind_example' },
    ],
    avatar: avatarOf('#8a4b2a', '<path d="M22 84h18V58h20v26M60 84h18V34h20v50h10M16 104h96"/>'),
    links: [
      {
        slug: 'company',
        title: 'Company register',
        description:
          'Who owns a company, since when, and where it is registered. Forty countries, updated nightly.',
        price: '0.05',
        tags: ['business', 'registers'],
        method: 'GET',
        properties: {
          name: {
            type: 'string',
            description: 'Full registered name, or its beginning.',
            example: 'Fabrikam',
          },
          country: { type: 'string', enum: ['DE', 'FR', 'PT', 'GB', 'US'], default: 'PT' },
        },
        required: ['name'],
        answer: {
          name: 'Fabrikam Lda',
          country: 'PT',
          since: '2011-03-14',
          owners: [{ share: 60 }, { share: 40 }],
        },
        dailyCalls: 4,
        reviews: [
          { isPositive: true, comment: 'Found a company that two other registers did not have.' },
          { isPositive: true, comment: 'Owners are right, also after a change last week.' },
          { isPositive: false, comment: 'One of the addresses was years old.' },
        ],
      },
      {
        slug: 'rates',
        title: 'Exchange rates',
        description: 'Mid-market rates of 160 currencies, every minute.',
        price: '0.002',
        tags: ['finance', 'live'],
        method: 'GET',
        properties: {
          base: { type: 'string', description: 'ISO 4217.', default: 'EUR' },
          quotes: { type: 'string', description: 'Separated by commas.', example: 'USD,GBP,CHF' },
        },
        required: [],
        answer: { base: 'EUR', rates: { USD: 1.0842, GBP: 0.8421, CHF: 0.9377 } },
        dailyCalls: 9,
        reviews: [{ isPositive: true, comment: 'Fast, and cheaper than what I had.' }],
      },
      {
        slug: 'holidays',
        title: 'Public holidays',
        description: 'Of 90 countries and their regions, ten years ahead.',
        price: '0',
        tags: ['calendar', 'registers'],
        method: 'GET',
        properties: { country: { type: 'string', default: 'PT' }, year: { type: 'integer', default: 2026 } },
        required: [],
        answer: [{ date: '2026-06-10', name: 'Portugal Day' }],
        dailyCalls: 34,
        reviews: [],
      },
    ],
  },
  {
    username: 'polyglot',
    displayName: 'Polyglot',
    bio: 'Small language models that do one thing each.',
    socials: [
      { type: 'website', url: 'https://polyglot.example/' },
      { type: 'github', url: 'https://github.com/polyglot-example' },
    ],
    avatar: avatarOf('#5b4a9e', '<path d="M24 30h80v52H66L44 104V82H24zM44 48h40M44 64h24"/>'),
    links: [
      {
        slug: 'translate',
        title: 'Translate a text',
        description: 'Into 60 languages, in the tone that you choose.',
        price: '0.004',
        tags: ['language', 'text'],
        method: 'POST',
        properties: {
          text: { type: 'string', description: 'Up to 5,000 characters.', example: 'Good morning' },
          to: { type: 'string', description: 'Language code, ISO 639.', example: 'pt' },
          tone: { type: 'string', enum: ['plain', 'formal', 'friendly'], default: 'plain' },
        },
        required: ['text', 'to'],
        answer: { text: 'Bom dia', from: 'en', to: 'pt' },
        dailyCalls: 6,
        reviews: [
          { isPositive: true, comment: 'Keeps names and numbers as they are.' },
          { isPositive: true, comment: 'Does what it says.' },
        ],
      },
      {
        slug: 'summary',
        title: 'Summary of a web page',
        description: 'A web page in three sentences, with its date.',
        price: '0.02',
        tags: ['text', 'web'],
        method: 'POST',
        properties: {
          url: {
            type: 'string',
            description: 'Address of an article.',
            example: 'https://example.org/article',
          },
          sentences: { type: 'integer', default: 3 },
        },
        required: ['url'],
        answer: { title: 'An article', sentences: ['This is how it begins.', 'It goes on.', 'It ends.'] },
        dailyCalls: 3,
        reviews: [
          { isPositive: true, comment: 'Short and to the point.' },
          { isPositive: false, comment: 'Took the cookie banner for the article, once.' },
        ],
      },
    ],
  },
]

/** Responses of the sample API by path. */
export const sampleResponses: Readonly<Record<string, object>> = Object.fromEntries(
  sampleStores.flatMap(({ username, links }) =>
    links.map(({ slug, answer }) => [`/${username}/${slug}`, answer]),
  ),
)
