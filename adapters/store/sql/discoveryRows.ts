import type { Access } from '../../../core/domain/access.ts'
import type { LinkType } from '../../../core/domain/link.ts'
import { popularityOf } from '../../../core/domain/popularity.ts'
import type { FoundLink } from '../../../core/ports/store/discovery.ts'
import type { Row } from './rows.ts'

const listedColumns = [
  ...['title', 'description', 'tags', 'price', 'link_type', 'is_active', 'is_public', 'is_stealth'],
  'suspension IS NULL',
]

/**
 * The columns that a listing is made from. After an update that changes none of them, the triggers need not list the link again.
 */
export const listedOf = (row: 'OLD' | 'NEW'): string =>
  `(${listedColumns.map((column) => `${row}.${column}`).join(', ')})`

export const toFoundLink = (row: Row): FoundLink => ({
  id: String(row['id']),
  title: String(row['title']),
  description: String(row['description']),
  slug: String(row['slug']),
  price: String(row['price']),
  priceMax: row['price_max'] === null ? null : String(row['price_max']),
  access: row['access'] === null ? null : (JSON.parse(String(row['access'])) as Access),
  linkType: row['link_type'] as LinkType,
  username: String(row['username']),
  displayName: String(row['display_name']),
  avatarUrl: String(row['avatar_url']),
  methods: JSON.parse(String(row['methods'])),
  tags: JSON.parse(String(row['tags'])),
  createdAtMs: Number(row['created_at_ms']),
  buyers: Number(row['buyers']),
  reviews: { total: Number(row['total']), positive: Number(row['positive']) },
})

/** A link's popularity. It is computed from the columns payers, last_sale_at_ms, uptime, total and positive. */
export function popularityFrom(row: Row): number {
  const number = (name: string) => Number(row[name] ?? 0)
  return popularityOf({
    payers: number('payers'),
    lastSaleAtMs: number('last_sale_at_ms'),
    uptime: row['uptime'] === null ? 1 : number('uptime'),
    reviews: { total: number('total'), positive: number('positive') },
  })
}
