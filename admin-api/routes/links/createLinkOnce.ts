import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Link, LinkId } from '../../../core/domain/link.ts'
import type { Store } from '../../../core/domain/store.ts'
import type { Api } from '../../deps.ts'
import { createLink } from './createLink.ts'
import type { CreateLinkBody } from './linkBodies.ts'

/** Clients give up after 15 s, and try twice more half a second apart. */
const rememberedMs = 60_000
const remembered = 10_000

/**
 * Makes a {@link createLink} for clients that heard no answer and send the request again, without a key that would mark it
 * as the same: what a store sends twice within a minute, word for word, makes one link, and a repeat joins one under way.
 * Remembered in this process, which is the only one that creates links. A link that was deleted since is made anew.
 */
export function createLinkOnce(api: Api): (store: Store, body: CreateLinkBody) => Promise<Link> {
  const made = new LRUCache<string, { readonly linkId: Promise<LinkId>; readonly untilMs: number }>({
    max: remembered,
  })
  return async (store, body) => {
    const request = createHash('sha256').update(store.id).update(JSON.stringify(body)).digest('base64')
    const earlier = made.get(request)
    if (earlier !== undefined && earlier.untilMs > api.clock.now()) {
      const link = await api.links.find(await earlier.linkId)
      if (link?.isActive) return link
    }
    const creating = createLink(api, store, body)
    const entry = { linkId: creating.then((link) => link.id), untilMs: api.clock.now() + rememberedMs }
    made.set(request, entry)
    // What was refused may be right the next time.
    entry.linkId.catch(() => made.get(request) === entry && made.delete(request))
    return creating
  }
}
