import type {
  Link,
  LinkId,
  LinkOrigin,
  LinkState,
  LinkSuspension,
  ServedLink,
  StoreId,
} from '../../domain/link.ts'

/** A link to create. The adapter sets version 1. */
export type NewLink = Omit<Link, 'version' | 'suspension'>
export type LinkPatch = Partial<Omit<Link, 'id' | 'storeId' | 'version' | 'createdAtMs'>>

/** A link as the public sees it. It has no schema or example, because such lists are requested often. */
export type ListedLink = Pick<
  Link,
  'id' | 'title' | 'description' | 'slug' | 'price' | 'priceMax' | 'linkType'
>

/** A search for links of a store. A link must meet every condition that is set. */
export interface LinkQuery {
  readonly limit: number
  /** `nextCursor` of the previous page. */
  readonly cursor?: string
  readonly state?: LinkState
  readonly isPaid?: boolean
  /** Words that must all occur in the title, the slug, the url or a tag. Case and Unicode form do not matter. */
  readonly words?: readonly string[]
}

export interface LinkPage {
  readonly links: readonly Link[]
  /** An opaque text. Null on the last page. */
  readonly nextCursor: string | null
}

/** A link that an import created, with the fields by which the next import recognizes it. */
export interface ImportedLink extends Pick<Link, 'id' | 'title' | 'slug' | 'price'> {
  readonly origin: LinkOrigin
}

/** A text in the form in which {@link LinkQuery} compares texts. */
export const foldedText = (text: string): string => text.normalize('NFKC').toLowerCase()

export interface Links {
  /**
   * @param maxActive maximum active links of the store, counted in the same commit. Absent for no limit
   * @throws `SLUG_ALREADY_EXISTS` if an active link of the store has the slug, `CONFLICT` if one has the origin, `LIMIT_REACHED` at
   *   `maxActive`
   */
  create(link: NewLink, maxActive?: number): Promise<Link>
  /**
   * Changes a link and raises its version. Its old slug redirects through `redirectOf` for 30 days. A link keeps its last ten old
   * slugs.
   *
   * @param ofVersion the version from which the patch was made. If absent, the version does not matter
   * @returns undefined if there is no such link, or it has another version, so that nothing has changed
   */
  update(id: LinkId, patch: LinkPatch, updatedAtMs: number, ofVersion?: number): Promise<Link | undefined>
  /**
   * Deletes the link, by setting `isActive` to false. The slug becomes free, and no address leads to the link, but its record
   * stays.
   */
  deactivate(id: LinkId, updatedAtMs: number): Promise<boolean>
  find(id: LinkId): Promise<Link | undefined>
  /** Several links, including deleted ones. Unknown ids are left out. */
  findAll(ids: readonly LinkId[]): Promise<ReadonlyMap<LinkId, Link>>
  /**
   * Active links of a store, newest first, then by id. Does not block the event loop.
   *
   * @throws `VALIDATION_ERROR` for an invalid cursor
   */
  page(storeId: StoreId, query: LinkQuery): Promise<LinkPage>
  /** Number of active links of a store. */
  countOf(storeId: StoreId): Promise<number>
  /** Active links of the store that were imported from the document, in no order. */
  importedFrom(storeId: StoreId, document: string): Promise<ImportedLink[]>
  /** Titles of links, including deleted ones. Unknown ids are left out. */
  titlesOf(ids: readonly LinkId[]): Promise<ReadonlyMap<LinkId, string>>
  /**
   * Those of the store's links that it shows publicly, which are public and not stealth, newest first. Does not block the event
   * loop.
   *
   * @throws `VALIDATION_ERROR` for an invalid cursor
   */
  listedOf(
    storeId: StoreId,
    page: { readonly limit: number; readonly cursor?: string },
  ): Promise<{ readonly links: readonly ListedLink[]; readonly nextCursor: string | null }>
  /** The link at the address `/api/link/<username>/<slug>`. If the link is a stealth link, the slug is its private slug. */
  served(username: string, slug: string): Promise<ServedLink | undefined>
  /** Every active link with its store, for `tollgate check`. */
  allServed(): Promise<ServedLink[]>
  /** The current address of the link that had this username and slug, within 30 days of the change. */
  redirectOf(
    username: string,
    slug: string,
    nowMs: number,
  ): Promise<{ username: string; slug: string } | undefined>
  /**
   * Suspends a link, or ends its suspension if `suspension` is null. If the link was not suspended before, this also writes the
   * event `link.suspended` for the store's webhooks.
   */
  setSuspension(id: LinkId, suspension: LinkSuspension | null, atMs: number): Promise<void>
  /** How often the link was suspended since `sinceMs`. The count determines the next cooldown. */
  suspensionCount(id: LinkId, sinceMs: number): Promise<number>
  addHealthEvent(event: HealthEvent): Promise<void>
  /** The link's health timeline, newest first. */
  healthEvents(id: LinkId, limit: number): Promise<HealthEvent[]>
}

/** One entry of a link's health timeline. */
export interface HealthEvent {
  readonly linkId: LinkId
  readonly atMs: number
  readonly kind: 'probe' | 'suspended' | 're-enabled'
  readonly ok: boolean
  /** HTTP status. Null if there was no response. */
  readonly status: number | null
  readonly latencyMs: number | null
  readonly detail: string
  /**
   * True for a probe that the seller requested. It does not count for the link's uptime, because sellers could otherwise raise
   * their uptime by many probes while the API works. If absent, the probe counts.
   */
  readonly isRequestedBySeller?: boolean
}
