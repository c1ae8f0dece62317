import type {
  Link,
  LinkId,
  LinkOrigin,
  LinkState,
  LinkSuspension,
  ServedLink,
  StoreId,
} from '../../domain/link.ts'

/** A link to be created; the adapter sets version 1. */
export type NewLink = Omit<Link, 'version' | 'suspension'>
export type LinkPatch = Partial<Omit<Link, 'id' | 'storeId' | 'version' | 'createdAtMs'>>

/** A link as strangers see it: asked for by everybody, so without the documents that may come with it. */
export type ListedLink = Pick<Link, 'id' | 'title' | 'description' | 'slug' | 'price' | 'linkType'>

/** Which links of a store are looked for: everything that is given has to hold. */
export interface LinkQuery {
  readonly limit: number
  /** Of the page before. */
  readonly cursor?: string
  readonly state?: LinkState
  readonly isPaid?: boolean
  /** Each is a part of the title, the slug, the url or a tag; in any case, and in any of Unicode's forms of it. */
  readonly words?: readonly string[]
}

export interface LinkPage {
  readonly links: readonly Link[]
  /** Opaque; null on the last page. */
  readonly nextCursor: string | null
}

/** A link that an import made, as far as the next one needs it to know it again. */
export interface ImportedLink extends Pick<Link, 'id' | 'title' | 'slug' | 'price'> {
  readonly origin: LinkOrigin
}

/** A text as {@link LinkQuery} compares it. */
export const foldedText = (text: string): string => text.normalize('NFKC').toLowerCase()

export interface Links {
  /**
   * @param maxActive active links that the store may have, counted in the same commit; none named means no limit
   * @throws `SLUG_ALREADY_EXISTS` when an active link of the store has the slug; `CONFLICT` when one has the origin;
   * `LIMIT_REACHED`
   */
  create(link: NewLink, maxActive?: number): Promise<Link>
  /**
   * Raises the version. An old slug keeps answering through `redirectOf` for 30 days, the last ten of a link.
   * @param ofVersion the version that the patch was made from; none named means whichever there is
   * @returns undefined when there is no such link, or none of that version any more: then nothing has changed
   */
  update(id: LinkId, patch: LinkPatch, updatedAtMs: number, ofVersion?: number): Promise<Link | undefined>
  /** Soft: `isActive` becomes false, the record is kept, the slug is free again, and nothing leads to the link. */
  deactivate(id: LinkId, updatedAtMs: number): Promise<boolean>
  find(id: LinkId): Promise<Link | undefined>
  /** Several at once, deleted ones too; of an id of no link there is nothing. */
  findAll(ids: readonly LinkId[]): Promise<ReadonlyMap<LinkId, Link>>
  /**
   * Active links of a store, newest first, and of one time by id. Looks through them without holding up the event loop.
   * @throws `VALIDATION_ERROR` for a cursor of no page
   */
  page(storeId: StoreId, query: LinkQuery): Promise<LinkPage>
  /** Active links that a store has. */
  countOf(storeId: StoreId): Promise<number>
  /** Active links that were made of a document of the store, in no order. */
  importedFrom(storeId: StoreId, document: string): Promise<ImportedLink[]>
  /** What links are called, deleted ones too; of an id of no link there is nothing. */
  titlesOf(ids: readonly LinkId[]): Promise<ReadonlyMap<LinkId, string>>
  /**
   * What of these the store shows to everybody: public ones that are not stealth, newest first. Does not hold up the event loop.
   * @throws `VALIDATION_ERROR` for a cursor of no page
   */
  listedOf(
    storeId: StoreId,
    page: { readonly limit: number; readonly cursor?: string },
  ): Promise<{ readonly links: readonly ListedLink[]; readonly nextCursor: string | null }>
  /** The link that is called at `/api/link/<username>/<slug>`; for a stealth link the slug is its private slug. */
  served(username: string, slug: string): Promise<ServedLink | undefined>
  /** Every active link with its store, for `tollgate check`. */
  allServed(): Promise<ServedLink[]>
  /** Where a former username/slug went, within 30 days of the change. */
  redirectOf(
    username: string,
    slug: string,
    nowMs: number,
  ): Promise<{ username: string; slug: string } | undefined>
  /** Tells `link.suspended` to those who listen, when it was not suspended before. */
  setSuspension(id: LinkId, suspension: LinkSuspension | null, atMs: number): Promise<void>
  /** How often the link was suspended since then: decides the next cooldown. */
  suspensionCount(id: LinkId, sinceMs: number): Promise<number>
  addHealthEvent(event: HealthEvent): Promise<void>
  /** Newest first. */
  healthEvents(id: LinkId, limit: number): Promise<HealthEvent[]>
}

/** One line of a link's health timeline. */
export interface HealthEvent {
  readonly linkId: LinkId
  readonly atMs: number
  readonly kind: 'probe' | 'suspended' | 're-enabled'
  readonly ok: boolean
  /** HTTP status, null when nothing answered. */
  readonly status: number | null
  readonly latencyMs: number | null
  readonly detail: string
  /** Of a probe: says nothing about how the link was, or sellers would ask for many while all is well. Left out: it does. */
  readonly isAskedBySeller?: boolean
}
