import type { Link } from './link.ts'

/** What an optional field of a link is when nobody said anything of it, or cleared it by null. */
export const linkDefaults = {
  description: '',
  price: '0',
  linkType: 'api',
  isPublic: false,
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
} as const satisfies Partial<Link>
