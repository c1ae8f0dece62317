import type {
  Link,
  LinkSuspension,
  LinkType,
  ResponseMode,
  ServedLink,
  SettleMode,
} from '../../core/domain/link.ts'
import type { HealthEvent, LinkPatch } from '../../core/ports/links.ts'
import type { LinkTable } from './schema.ts'
import type { Row } from './statement.ts'

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

export function toLink(found: object): Link {
  const row = found as LinkTable
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
    inputSchema: parsed(row.input_schema),
    outputExample: parsed(row.output_example),
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

/** A row of a link joined with `username`, `payout_base` and `payout_solana` of its store. */
export function toServedLink(found: object): ServedLink {
  const row = found as { username: string; payout_base: string | null; payout_solana: string | null }
  return {
    ...toLink(found),
    username: row.username,
    payout: { base: row.payout_base, solana: row.payout_solana },
  }
}

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
