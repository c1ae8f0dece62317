import { randomBytes } from 'node:crypto'
import type { Link, LinkSuspension } from '../../../../core/domain/link.ts'
import { originTaken, slugTaken, tooManyLinks } from '../../../../core/ports/refusals.ts'
import type { ImportedLink, LinkPatch, Links, NewLink } from '../../../../core/ports/store/links.ts'
import { readCursor } from '../../../../core/ports/store/purchases.ts'
import { DAY_MS } from '../../../../core/ports/store/stats.ts'
import { cutPage } from '../../sql/rows.ts'
import type { LinkTable } from '../../sql/schema.ts'
import { noteLinkEvent } from '../events.ts'
import {
  assignments,
  type CallsOf,
  list,
  locked,
  noteLinkChange,
  type Reads,
  row,
  type Steps,
  type Tx,
  words,
} from '../transaction.ts'
import { failDeliveries, moveDeliveries } from '../webhooks/endpoints.ts'
import { createTimeline, type healthCheckWrites, scheduleCheck } from './healthChecks.ts'
import { toLink, toLinkColumns, toListedLink, toNewLinkColumns } from './linkRows.ts'

/** How long a former slug or username redirects, in ms. */
export const REDIRECT_MS = 30 * DAY_MS

/**
 * Maximum number of former slugs of a link that redirect. The limit keeps a link that is renamed every minute from filling the
 * table.
 */
const MAX_FORMER_SLUGS = 10

export const linkWrites = {
  *create(tx: Tx, link: NewLink, maxActive?: number): Steps<Link> {
    const columns = toNewLinkColumns(link)
    yield* holdNames(tx, columns)
    if (maxActive !== undefined) {
      const active = yield* tx.one<{ count: number }>`
        SELECT count(*) AS count FROM links WHERE store_id = ${link.storeId} AND is_active = 1`
      if (active!.count >= maxActive) throw tooManyLinks(maxActive)
    }
    const created = yield* tx.one<LinkTable>`INSERT INTO links ${row({ ...columns })} RETURNING *`
    yield* follow(tx, undefined, created!)
    return toLink(created!)
  },

  *update(
    tx: Tx,
    id: string,
    patch: LinkPatch,
    updatedAtMs: number,
    ofVersion?: number,
  ): Steps<Link | undefined> {
    const before = yield* lockedLink(tx, id)
    if (before === undefined || (ofVersion !== undefined && before.version !== ofVersion)) return undefined
    return toLink(yield* change(tx, before, toLinkColumns(patch), updatedAtMs))
  },

  *deactivate(tx: Tx, id: string, updatedAtMs: number): Steps<boolean> {
    const before = yield* lockedLink(tx, id)
    if (before === undefined || before.is_active === 0) return false
    yield* change(tx, before, { is_active: 0 }, updatedAtMs)
    yield* tx.run`DELETE FROM slug_redirects WHERE store_id = ${before.store_id} AND link_id = ${id}`
    return true
  },

  *setSuspension(tx: Tx, id: string, suspension: LinkSuspension | null, atMs: number): Steps<void> {
    const before = yield* lockedLink(tx, id)
    if (before === undefined) return
    if (suspension !== null && before.suspension === null) {
      yield* tx.run`INSERT INTO link_suspensions ${row({ link_id: id, at_ms: atMs })}`
      yield* noteLinkEvent(tx, id, { kind: 'link.suspended', atMs, detail: suspension })
    }
    yield* change(tx, before, toLinkColumns({ suspension }), atMs)
  },
}

const lockedLink = (tx: Tx, id: string) => tx.one<LinkTable>`SELECT * FROM links WHERE id = ${id} ${locked}`

/** Writes every column, because the database would keep a prepared statement for each choice of columns. */
function* change(
  tx: Tx,
  before: LinkTable,
  changes: Partial<LinkTable>,
  updatedAtMs: number,
): Steps<LinkTable> {
  const after = { ...before, ...changes, updated_at_ms: updatedAtMs, version: before.version + 1 }
  if (after.is_active === 1 && nameColumns.some((name) => after[name] !== before[name]))
    yield* holdNames(tx, after)
  const { id, ...columns } = after
  const written =
    yield* tx.one<LinkTable>`UPDATE links SET ${assignments(columns)} WHERE id = ${id} RETURNING *`
  if (after.slug !== before.slug && before.is_active === 1 && before.is_stealth === 0)
    yield* redirectFrom(tx, before, updatedAtMs)
  yield* follow(tx, before, written!)
  if (before.access === null && written!.access !== null) yield* addBuyers(tx, id)
  return written!
}

/** Makes the further changes that a change of a link requires, in the same commit. */
function* follow(tx: Tx, before: LinkTable | undefined, after: LinkTable): Steps<void> {
  yield* scheduleCheck(tx, before, after)
  yield* keepEndpoint(tx, after, before?.webhook_url ?? null)
  yield* noteLinkChange(tx, after.store_id, new Set([addressOf(after), addressOf(before ?? after)]))
  const { id, updated_at_ms: atMs } = after
  // Cancels the link's open sessions. A session that is being paid waits for its payment.
  if (before?.is_active === 1 && after.is_active === 0)
    yield* tx.run`UPDATE payment_sessions SET state = 'canceled', ended_at_ms = ${atMs}
      WHERE link_id = ${id} AND state = 'open' AND payment_id IS NULL AND expires_at_ms > ${atMs}`
}

/** The last part of the link's address. */
const addressOf = (link: LinkTable): string => (link.is_stealth === 1 ? link.private_slug! : link.slug)

const nameColumns = ['slug', 'private_slug', 'origin_document', 'origin_key', 'is_active'] as const

/** Locks the link's slugs and origin, so that no other link of the store takes them before the transaction ends. */
function* holdNames(tx: Tx, link: LinkTable): Steps<void> {
  const { id, store_id: store, slug } = link
  yield* tx.hold(`links:${store}`)
  const taken = yield* tx.one<{ is_origin: number }>`
    SELECT 1 AS is_origin FROM links WHERE store_id = ${store} AND origin_document = ${link.origin_document}
      AND origin_key = ${link.origin_key} AND is_active = 1 AND id <> ${id}
    UNION ALL SELECT 0 FROM links WHERE store_id = ${store} AND slug = ${slug} AND is_active = 1 AND id <> ${id}
    UNION ALL SELECT 0 FROM links
      WHERE store_id = ${store} AND private_slug = ${link.private_slug} AND is_active = 1 AND id <> ${id}
    ORDER BY is_origin DESC LIMIT 1`
  if (taken !== undefined) throw taken.is_origin === 1 ? originTaken() : slugTaken(slug)
}

function* redirectFrom(tx: Tx, { id, store_id: store, slug }: LinkTable, atMs: number): Steps<void> {
  const columns = { store_id: store, slug, link_id: id, expires_at_ms: atMs + REDIRECT_MS }
  yield* tx.run`INSERT INTO slug_redirects ${row(columns)}
    ON CONFLICT (store_id, slug) DO UPDATE SET link_id = excluded.link_id, expires_at_ms = excluded.expires_at_ms`
  yield* tx.run`DELETE FROM slug_redirects WHERE store_id = ${store} AND link_id = ${id} AND slug NOT IN (
    SELECT slug FROM slug_redirects WHERE store_id = ${store} AND link_id = ${id}
    ORDER BY expires_at_ms DESC LIMIT ${MAX_FORMER_SLUGS} + 0)`
}

/** Maximum number of earlier sales that give access when a link gets it. */
const MAX_EARLIER_SALES = 10_000

/** Adds the buyers of a link's earlier sales, because a link without access does not keep them by wallet. */
const addBuyers = (tx: Tx, linkId: string): Steps<number> =>
  tx.run`INSERT INTO link_buyers (link_id, wallet, at_ms, payment_id)
    SELECT link_id, CASE WHEN network LIKE 'eip155:%' THEN lower(buyer_wallet) ELSE buyer_wallet END, created_at_ms,
      payment_id
    FROM purchases WHERE link_id = ${linkId} ORDER BY created_at_ms DESC LIMIT ${MAX_EARLIER_SALES} + 0
    ON CONFLICT DO NOTHING`

interface LinkCalls {
  readonly links: CallsOf<typeof linkWrites>
  readonly healthChecks: CallsOf<typeof healthCheckWrites>
}

interface LinkReads {
  /** Lookups that take microseconds. */
  readonly reads: Reads
  /** Reads of many links for one store. The stores take turns. */
  readsFor(requester: string): Reads
  /** The reads that differ between the databases. */
  readonly own: Pick<Links, 'served' | 'allServed' | 'page'>
}

/** Paid links. */
export function createLinks(calls: LinkCalls, { reads, readsFor, own }: LinkReads): Links {
  async function storeNamed(username: string, nowMs: number) {
    interface Found {
      readonly id: string
      readonly username: string
    }
    return (
      (await reads.one<Found>`SELECT id, username FROM stores WHERE username = ${username}`) ??
      (await reads.one<Found>`SELECT s.id, s.username FROM username_redirects r JOIN stores s ON s.id = r.store_id
        WHERE r.username = ${username} AND r.expires_at_ms > ${nowMs}`)
    )
  }

  return {
    ...calls.links,
    ...createTimeline(calls, reads),
    ...own,

    async find(id) {
      const found = await reads.one<LinkTable>`SELECT * FROM links WHERE id = ${id}`
      return found && toLink(found)
    },

    async findAll(ids) {
      if (ids.length === 0) return new Map()
      const rows = await readsFor('').all<LinkTable>`SELECT * FROM links WHERE id IN ${list(ids)}`
      return new Map(rows.map((one) => [one.id, toLink(one)]))
    },

    async countOf(storeId) {
      const active = await reads.one<{ count: number }>`
        SELECT count(*) AS count FROM links WHERE store_id = ${storeId} AND is_active = 1`
      return active!.count
    },

    async titlesOf(ids) {
      if (ids.length === 0) return new Map()
      const rows = await readsFor('').all<
        Pick<LinkTable, 'id' | 'title'>
      >`SELECT id, title FROM links WHERE id IN ${list(ids)}`
      return new Map(rows.map(({ id, title }) => [id, title]))
    },

    async importedFrom(storeId, document) {
      const rows = await readsFor(storeId).all<LinkTable>`
        SELECT id, title, slug, price, origin_key, origin_operation FROM links ${by('links_origin')}
        WHERE store_id = ${storeId} AND origin_document = ${document} AND is_active = 1`
      return rows.map(
        ({ id, title, slug, price, origin_key: key, origin_operation: operation }): ImportedLink => {
          const origin = { document, key: key!, operation: operation! }
          return { id, title, slug, price, origin }
        },
      )
    },

    async listedOf(storeId, { limit, cursor }) {
      const { atMs, id } = cursor === undefined ? newest : readCursor(cursor)
      const rows = await readsFor(storeId).all<LinkTable>`
        SELECT id, title, description, slug, price, price_max, link_type, created_at_ms FROM links ${by('links_pages')}
        WHERE store_id = ${storeId} AND is_active = 1 AND is_public = 1 AND is_stealth = 0
          AND (created_at_ms, id) < (${atMs}, ${id})
        ORDER BY created_at_ms DESC, id DESC LIMIT ${limit + 1} + 0`
      const { shown, nextCursor } = cutPage(rows, limit, (one) => [one.created_at_ms, one.id])
      return { links: shown.map(toListedLink), nextCursor }
    },

    async redirectOf(username, slug, nowMs) {
      const store = await storeNamed(username, nowMs)
      if (store === undefined) return undefined
      if ((await own.served(store.username, slug)) !== undefined)
        return store.username === username ? undefined : { username: store.username, slug }
      // If a link with former slugs became stealth, they do not redirect, because the redirect would reveal the private slug.
      const target = await reads.one<{ slug: string }>`
        SELECT l.slug FROM slug_redirects r JOIN links l ON l.id = r.link_id
        WHERE r.store_id = ${store.id} AND r.slug = ${slug} AND r.expires_at_ms > ${nowMs}
          AND l.is_active = 1 AND l.is_stealth = 0`
      return target && { username: store.username, slug: target.slug }
    },

    async suspensionCount(id, sinceMs) {
      const found = await reads.one<{ count: number }>`
        SELECT count(*) AS count FROM link_suspensions WHERE link_id = ${id} AND at_ms >= ${sinceMs}`
      return found!.count
    },
  }
}

/** The position before the newest link in a list. */
const newest = { atMs: Number.MAX_SAFE_INTEGER, id: '' }

/** Names the index for SQLite, because SQLite has no statistics to choose the better one. */
const by = (index: string) => words(`INDEXED BY ${index}`, '')

/**
 * Updates a link's own webhook endpoint to match the link. After a change of the URL, the endpoint keeps its secret and its waiting
 * deliveries. It is enabled again if it was disabled because the previous URL failed.
 *
 * @param urlWas null if the link had no URL
 */
function* keepEndpoint(tx: Tx, link: LinkTable, urlWas: string | null): Steps<void> {
  const { id, store_id, webhook_url: url, updated_at_ms: atMs } = link
  if (url === urlWas) return
  if (url === null) {
    yield* tx.run`DELETE FROM webhook_endpoints WHERE id = ${id}`
    yield* failDeliveries(tx, id)
    return
  }
  const columns = {
    id,
    store_id,
    link_id: id,
    url,
    description: '',
    // Section 6 of the marketplace interface has only this event, and its receivers treat every event as a sale.
    kinds: '["purchase.confirmed","test"]',
    salt: randomBytes(16).toString('hex'),
    listening_since_ms: atMs,
    created_at_ms: atMs,
    updated_at_ms: atMs,
  }
  yield* tx.run`
    INSERT INTO webhook_endpoints AS e ${row(columns)}
    ON CONFLICT (id) DO UPDATE SET url = excluded.url, disabled_at_ms = NULL, disabled_reason = NULL, failing_since_ms = NULL,
      updated_at_ms = excluded.updated_at_ms,
      listening_since_ms = CASE WHEN e.disabled_at_ms IS NULL THEN e.listening_since_ms ELSE excluded.updated_at_ms END`
  if (urlWas !== null) yield* moveDeliveries(tx, id, 'waiting')
}
