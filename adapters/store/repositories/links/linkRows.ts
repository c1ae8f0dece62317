import type { Access } from '../../../../core/domain/access.ts'
import type {
  Link,
  LinkState,
  LinkSuspension,
  LinkType,
  ResponseMode,
  ServedLink,
  SettleMode,
} from '../../../../core/domain/link.ts'
import type { Pricing } from '../../../../core/domain/pricing.ts'
import type { LinkPatch, ListedLink, NewLink } from '../../../../core/ports/store/links.ts'
import type { LinkTable } from '../../sql/schema.ts'

/** The columns for the given fields. The fields are those of a new link or of a patch. */
export function toLinkColumns(link: LinkPatch): Partial<LinkTable> {
  return withoutUndefined({
    url: link.url,
    title: link.title,
    description: link.description,
    slug: link.slug,
    price: link.price,
    price_max: link.priceMax,
    pricing: link.pricing === null ? null : json(link.pricing),
    is_public: flag(link.isPublic),
    is_active: flag(link.isActive),
    link_type: link.linkType,
    is_stealth: flag(link.isStealth),
    private_slug: link.privateSlug,
    webhook_url: link.webhookUrl,
    methods: json(link.methods),
    input_schema: 'inputSchema' in link ? (json(link.inputSchema) ?? null) : undefined,
    output_example: 'outputExample' in link ? (json(link.outputExample) ?? null) : undefined,
    tags: json(link.tags),
    icon_url: link.iconUrl,
    response_mode: link.responseMode,
    settle: link.settle,
    access: link.access === null ? null : json(link.access),
    upstream_headers_sealed: link.upstreamHeadersSealed,
    origin_document: link.origin === null ? null : link.origin?.document,
    origin_key: link.origin === null ? null : link.origin?.key,
    origin_operation: link.origin === null ? null : link.origin?.operation,
    suspension: link.suspension === null ? null : json(link.suspension),
  })
}

/** All columns of a new link. */
export const toNewLinkColumns = ({ id, storeId, createdAtMs, updatedAtMs, ...link }: NewLink): LinkTable =>
  ({
    ...toLinkColumns({ ...link, suspension: null }),
    id,
    store_id: storeId,
    created_at_ms: createdAtMs,
    updated_at_ms: updatedAtMs,
    version: 1,
  }) as LinkTable

export function toLink(found: object): Link {
  const row = found as LinkTable
  return {
    ...factsOf(row),
    inputSchema: parsed(row.input_schema),
    outputExample: parsed(row.output_example),
  }
}

/** A link without its documents. */
function factsOf(row: LinkTable): Omit<Link, keyof Documents> {
  return {
    id: row.id,
    storeId: row.store_id,
    url: row.url,
    title: row.title,
    description: row.description,
    slug: row.slug,
    price: row.price,
    priceMax: row.price_max,
    pricing: parsed(row.pricing) as Pricing | null,
    isPublic: row.is_public === 1,
    isActive: row.is_active === 1,
    linkType: row.link_type as LinkType,
    isStealth: row.is_stealth === 1,
    privateSlug: row.private_slug,
    webhookUrl: row.webhook_url,
    methods: JSON.parse(row.methods) as string[],
    tags: JSON.parse(row.tags) as string[],
    iconUrl: row.icon_url,
    responseMode: row.response_mode as ResponseMode,
    settle: row.settle as SettleMode,
    access: parsed(row.access) as Access | null,
    upstreamHeadersSealed: row.upstream_headers_sealed,
    origin:
      row.origin_document === null
        ? null
        : { document: row.origin_document, key: row.origin_key!, operation: row.origin_operation! },
    suspension: parsed(row.suspension) as LinkSuspension | null,
    createdAtMs: row.created_at_ms,
    updatedAtMs: row.updated_at_ms,
    version: row.version,
  }
}

/** Converts a row that has the listed columns. It may also have all columns of {@link toLink}. */
export function toListedLink(found: object): ListedLink {
  const { id, title, description, slug, price, price_max: priceMax, link_type } = found as LinkTable
  return { id, title, description, slug, price, priceMax, linkType: link_type as LinkType }
}

/** SQL conditions for the states of a link. */
export const stateConditions: Readonly<Record<LinkState, string>> = {
  suspended: 'suspension IS NOT NULL',
  stealth: 'suspension IS NULL AND is_stealth = 1',
  public: 'suspension IS NULL AND is_stealth = 0 AND is_public = 1',
  unlisted: 'suspension IS NULL AND is_stealth = 0 AND is_public = 0',
}

type ServedRow = LinkTable & { username: string; payout_base: string | null; payout_solana: string | null }

/** Converts a row of a link. The row also has `username`, `payout_base` and `payout_solana` of the link's store. */
export function toServedLink(found: object): ServedLink {
  const row = found as ServedRow
  return {
    ...toLink(found),
    username: row.username,
    payout: { base: row.payout_base, solana: row.payout_solana },
  }
}

/** A seller's two documents. */
type Documents = Pick<Link, 'inputSchema' | 'outputExample'>

/** Keys under which a link stores the documents' text. */
const inputText = Symbol('inputSchema')
const outputText = Symbol('outputExample')
interface Texts {
  readonly [inputText]: string | null
  readonly [outputText]: string | null
}

// All links share these descriptors, so that they have one hidden class and no functions of their own.
const inputSchema: PropertyDescriptor = {
  enumerable: true,
  get(this: Texts) {
    return parsed(this[inputText])
  },
}
const outputExample: PropertyDescriptor = {
  enumerable: true,
  get(this: Texts) {
    return parsed(this[outputText])
  },
}

const none: readonly string[] = Object.freeze([])
const isNone = (list: readonly string[]): boolean => list.length === 0

/**
 * Like {@link toServedLink}, for the cache, which may contain very many links. Links of a store share the strings that are the same
 * for all of them. The documents stay text, because they are rarely read.
 *
 * @param neighbour a link of the same store
 */
export function toKeptLink(found: object, neighbour: ServedLink | undefined): ServedLink {
  const row = found as ServedRow
  const { username, payout_base: base, payout_solana: solana } = row
  const link: { -readonly [K in keyof ServedLink]?: ServedLink[K] } = factsOf(row)
  // This literal replaces the string from the database, so that each link does not have a copy.
  if (link.linkType === 'api') link.linkType = 'api'
  if (link.responseMode === 'wrap') link.responseMode = 'wrap'
  if (link.settle === 'after') link.settle = 'after'
  if (isNone(link.methods!)) link.methods = none
  if (isNone(link.tags!)) link.tags = none
  if (neighbour?.storeId === row.store_id) link.storeId = neighbour.storeId
  link.username = neighbour?.username === username ? neighbour.username : username
  const isPaidAlike = neighbour?.payout.base === base && neighbour.payout.solana === solana
  link.payout = isPaidAlike ? neighbour.payout : { base, solana }
  if (row.input_schema === null && row.output_example === null)
    return Object.assign(link as ServedLink, { inputSchema: null, outputExample: null })
  return Object.defineProperties(link as ServedLink, {
    [inputText]: { value: row.input_schema },
    [outputText]: { value: row.output_example },
    inputSchema,
    outputExample,
  })
}

const flag = (value: boolean | undefined): number | undefined =>
  value === undefined ? undefined : Number(value)
const json = (value: unknown): string | undefined => (value === undefined ? undefined : JSON.stringify(value))
const parsed = (text: string | null): unknown => (text === null ? null : JSON.parse(text))

function withoutUndefined<T extends object>(columns: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined)) as never
}
