import { createHash, randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Link, LinkId, LinkOrigin } from '../../core/domain/link.ts'
import { linkDefaults } from '../../core/domain/linkDefaults.ts'
import type { Store } from '../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { NewLink } from '../../core/ports/store/links.ts'
import type { Api } from '../deps.ts'
import { announceLink } from './announceLink.ts'
import type { CreateLinkBody } from './linkBodies.ts'
import { refuseUncallable, refuseUnpayable, refuseUnreachable, stealthWins } from './linkRules.ts'
import { readLinkFields } from './readLinkFields.ts'
import { createPrivateSlug, slugOf, withSuffix } from './slugs.ts'

const SLUG_TRIES = 5
/** Clients give up after 15 s, and try twice more half a second apart. */
const REMEMBERED_MS = 60_000
const REMEMBERED = 10_000

/**
 * Makes a {@link createLink} for clients that heard no answer and send the request again, without a key that would mark it
 * as the same: what a store sends twice within a minute, word for word, makes one link, and a repeat joins one under way.
 * Remembered in this process, which is the only one that creates links. A link that was deleted since is made anew.
 */
export function createLinkOnce(api: Api): (store: Store, body: CreateLinkBody) => Promise<Link> {
  const made = new LRUCache<string, { readonly linkId: Promise<LinkId>; readonly untilMs: number }>({
    max: REMEMBERED,
  })
  return async (store, body) => {
    const request = createHash('sha256').update(store.id).update(JSON.stringify(body)).digest('base64')
    const earlier = made.get(request)
    if (earlier !== undefined && earlier.untilMs > api.clock.now()) {
      const link = await api.links.find(await earlier.linkId)
      if (link?.isActive) return link
    }
    const creating = createLink(api, store, body)
    const entry = { linkId: creating.then((link) => link.id), untilMs: api.clock.now() + REMEMBERED_MS }
    made.set(request, entry)
    // What was refused may be right the next time.
    entry.linkId.catch(() => made.get(request) === entry && made.delete(request))
    return creating
  }
}

/** What an import says of a link beside its fields. */
export interface Imported {
  readonly origin: LinkOrigin
  /** A slug for the link if the store has none of this name. */
  readonly slug: string
}

/**
 * Creates a link of a store, after a health check when it is paid.
 *
 * @throws what the steps it names throw, `SLUG_ALREADY_EXISTS`, `LIMIT_REACHED`; `CONFLICT` when there is a link of the origin
 */
export async function createLink(
  api: Api,
  store: Store,
  body: CreateLinkBody,
  imported?: Imported,
): Promise<Link> {
  const id = randomUUID()
  const nowMs = api.clock.now()
  const link: NewLink = stealthWins({
    ...linkDefaults,
    slug: imported?.slug ?? slugOf(body.title),
    origin: imported?.origin ?? null,
    url: body.url,
    title: body.title,
    ...readLinkFields(api, id, body),
    id,
    storeId: store.id,
    isActive: true,
    privateSlug: body.isStealth === true ? createPrivateSlug() : null,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
  })
  refuseUnpayable(api, store.payout, link)
  await refuseUncallable(api, link)
  const probed = await refuseUnreachable(api, link)
  const created = await insert(api, link, body.slug == null)
  await probed.saved()
  announceLink(api, store.username, created)
  return created
}

/** A slug that we made up may be taken; one that the seller chose is refused then. */
async function insert(api: Api, link: NewLink, isSlugOurs: boolean): Promise<Link> {
  let slug = link.slug
  for (let tries = 1; ; tries++) {
    try {
      return await api.links.create({ ...link, slug }, api.maxLinksPerStore)
    } catch (error) {
      if (isTollgateError(error) && error.code === 'LIMIT_REACHED') throw tooMany(api.maxLinksPerStore)
      const isTaken = isTollgateError(error) && error.code === 'SLUG_ALREADY_EXISTS'
      if (!isTaken || !isSlugOurs || tries === SLUG_TRIES) throw error
      slug = withSuffix(link.slug)
    }
  }
}

const tooMany = (maximum: number): TollgateError =>
  new TollgateError(
    'LIMIT_REACHED',
    `The store has ${maximum} active links, the most it may have; take one away with DELETE /api/v1/links/:id first.`,
  )
