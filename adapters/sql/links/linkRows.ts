import type { Insertable } from 'kysely'
import type {
  Link,
  LinkState,
  LinkSuspension,
  LinkType,
  ResponseMode,
  ServedLink,
  SettleMode,
} from '../../../core/domain/link.ts'
import type { HealthEvent, LinkPatch, ListedLink, NewLink } from '../../../core/ports/store/links.ts'
import type { Row } from '../row.ts'
import type { HealthEventTable, LinkTable } from '../schema.ts'

/** A link's columns, written from the fields that are there: all of a new link, or a patch. */
export function toLinkColumns(link: LinkPatch): Partial<LinkTable> {
  return withoutUndefined({
    url: link.url,
    title: link.title,
    description: link.description,
    slug: link.slug,
    price: link.price,
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

/** All of a link but its documents. */
function factsOf(row: LinkTable): Omit<Link, keyof Documents> {
  return {
    id: row.id,
    storeId: row.store_id,
    url: row.url,
    title: row.title,
    description: row.description,
    slug: row.slug,
    price: row.price,
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

/** A row as {@link toLink} reads it, or of these columns alone. */
export function toListedLink(found: object): ListedLink {
  const { id, title, description, slug, price, link_type } = found as LinkTable
  return { id, title, description, slug, price, linkType: link_type as LinkType }
}

/** What a link in a state looks like. */
export const stateConditions: Readonly<Record<LinkState, string>> = {
  suspended: 'suspension IS NOT NULL',
  stealth: 'suspension IS NULL AND is_stealth = 1',
  public: 'suspension IS NULL AND is_stealth = 0 AND is_public = 1',
  unlisted: 'suspension IS NULL AND is_stealth = 0 AND is_public = 0',
}

type ServedRow = LinkTable & { username: string; payout_base: string | null; payout_solana: string | null }

/** A row of a link joined with `username`, `payout_base` and `payout_solana` of its store. */
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

/** Where their text is. */
const inputText = Symbol('inputSchema')
const outputText = Symbol('outputExample')
interface Texts {
  readonly [inputText]: string | null
  readonly [outputText]: string | null
}

// The same functions for all links, so that they keep one shape and have none of their own.
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
 * The same for a link that is kept for as long as it is called, one of very many: what is the same for all of its store is kept
 * once, and its documents as text, which hardly anybody reads.
 *
 * @param neighbour a link of the same store
 */
export function toKeptLink(found: object, neighbour: ServedLink | undefined): ServedLink {
  const row = found as ServedRow
  const { username, payout_base: base, payout_solana: solana } = row
  const link: { -readonly [K in keyof ServedLink]?: ServedLink[K] } = factsOf(row)
  // Texts of the code's own, in the place of a copy for each link.
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
    ...{ inputSchema, outputExample },
  })
}

export const toHealthEventColumns = (event: HealthEvent): Insertable<HealthEventTable> => ({
  link_id: event.linkId,
  at_ms: event.atMs,
  kind: event.kind,
  ok: Number(event.ok),
  status: event.status,
  latency_ms: event.latencyMs === null ? null : Math.round(event.latencyMs),
  detail: event.detail,
  asked_by_seller: Number(event.isAskedBySeller ?? false),
})

export const toHealthEvent = (row: Row): HealthEvent => ({
  linkId: String(row['link_id']),
  atMs: Number(row['at_ms']),
  kind: row['kind'] as HealthEvent['kind'],
  ok: row['ok'] === 1,
  status: row['status'] as number | null,
  latencyMs: row['latency_ms'] as number | null,
  detail: String(row['detail']),
  ...(row['asked_by_seller'] === 1 && { isAskedBySeller: true }),
})

const flag = (value: boolean | undefined): number | undefined =>
  value === undefined ? undefined : Number(value)
const json = (value: unknown): string | undefined => (value === undefined ? undefined : JSON.stringify(value))
const parsed = (text: string | null): unknown => (text === null ? null : JSON.parse(text))

function withoutUndefined<T extends object>(columns: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined)) as never
}
