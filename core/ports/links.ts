import type { Link, LinkId, LinkSuspension, ServedLink, StoreId } from '../domain/link.ts'

/** A link to be created; the adapter sets version 1. */
export type NewLink = Omit<Link, 'version' | 'suspension'>
export type LinkPatch = Partial<Omit<Link, 'id' | 'storeId' | 'version' | 'createdAtMs'>>

/** A link as strangers see it: asked for by everybody, so without the documents that may come with it. */
export type ListedLink = Pick<Link, 'id' | 'title' | 'description' | 'slug' | 'price' | 'linkType'>

export interface Links {
  /**
   * @param maxActive active links that the store may have, counted in the same commit; none named means no limit
   * @throws `SLUG_ALREADY_EXISTS` when an active link of the store has the slug; `LIMIT_REACHED`
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
  /** Active links of a store, newest first. */
  ofStore(storeId: StoreId): Promise<Link[]>
  /** What of these the store shows to everybody: public ones that are not stealth, newest first. */
  listedOf(storeId: StoreId): Promise<ListedLink[]>
  /** The link that is called at `/api/link/<username>/<slug>`; for a stealth link the slug is its private slug. */
  served(username: string, slug: string): Promise<ServedLink | undefined>
  /** Every active link with its store, for `tollgate check` and the health prober. */
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
}
