import { isPaid, type Link, linkStateOf, type ServedLink } from '../../../core/domain/link.ts'
import type { Store } from '../../../core/domain/store.ts'
import { originTaken, slugTaken, tooManyLinks } from '../../../core/ports/refusals.ts'
import { foldedText, type HealthEvent, type Links } from '../../../core/ports/store/links.ts'
import type { Access } from './access.ts'
import { noteChecks, setTurn } from './healthChecks.ts'
import type { FormerSlug, Memory } from './memory.ts'
import { newestPage } from './newestPage.ts'
import { cancelSessionsOf } from './sessions.ts'
import { setEndpointOfLink, tell } from './webhooks.ts'

const KEPT_MS = 30 * 24 * 60 * 60 * 1000
const FORMER_SLUGS_OF_A_LINK = 10

/** Links in memory. */
export function createLinks(memory: Memory, { read, write }: Access): Links {
  const { links, stores, formerSlugs, formerNames, suspensions, health, linkChecks } = memory.tables
  const addressOf = (link: Link) => (link.isStealth ? link.privateSlug! : link.slug)
  const activeOf = (storeId: string) =>
    links
      .values()
      .filter((link) => link.isActive && link.storeId === storeId)
      .sort((a, b) => b.createdAtMs - a.createdAtMs || (a.id < b.id ? 1 : -1))
  const storeCalled = (username: string) => stores.values().find((store) => store.username === username)

  /** The latest check stands by itself, unless it failed or passed after one that had. */
  function timelineOf(id: string): HealthEvent[] {
    const kept = [...(health.get(id) ?? [])]
    const last = linkChecks.get(id)?.last ?? null
    const isIn = kept.some((one) => one.kind === 'probe' && !one.isAskedBySeller && one.atMs === last?.atMs)
    return last === null || isIn ? kept : [last, ...kept]
  }

  function put(link: Link): void {
    const before = links.get(link.id)
    const clash = (other: Link) =>
      other.id !== link.id &&
      (other.slug === link.slug || (other.privateSlug !== null && other.privateSlug === link.privateSlug))
    if (link.isActive && activeOf(link.storeId).some(clash)) throw slugTaken(link.slug)
    if (link.isActive && link.origin !== null) {
      const { document, key } = link.origin
      const isSame = ({ id, origin }: Link) =>
        id !== link.id && origin?.document === document && origin.key === key
      if (activeOf(link.storeId).some(isSame)) throw originTaken()
    }
    links.set(link.id, link)
    setEndpointOfLink(memory, link, before)
    setTurn(memory.tables, link, before)
    const username = stores.get(link.storeId)!.username
    memory.note({ kind: 'link', username, slug: addressOf(link) })
    if (before !== undefined && addressOf(before) !== addressOf(link))
      memory.note({ kind: 'link', username, slug: addressOf(before) })
  }

  const slugsOf = (id: string): [key: string, former: FormerSlug][] =>
    formerSlugs.keys().flatMap((key) => {
      const former = formerSlugs.get(key)!
      return former.linkId === id ? [[key, former]] : []
    })

  function keepFormerSlug(link: Link, atMs: number): void {
    const { storeId, slug, id } = link
    if (link.isActive && !link.isStealth)
      formerSlugs.set(`${storeId} ${slug}`, { storeId, slug, linkId: id, expiresAtMs: atMs + KEPT_MS })
    const newestFirst = slugsOf(id).sort(([, a], [, b]) => b.expiresAtMs - a.expiresAtMs)
    for (const [key] of newestFirst.slice(FORMER_SLUGS_OF_A_LINK)) formerSlugs.delete(key)
  }

  const withStore = (link: Link, { username, payout }: Store): ServedLink => ({ ...link, username, payout })

  function served(username: string, slug: string): ServedLink | undefined {
    const store = storeCalled(username)
    const link = store && activeOf(store.id).find((one) => addressOf(one) === slug)
    return link && withStore(link, store)
  }

  const known = (ids: readonly string[]) =>
    new Map(
      ids.flatMap((id) => {
        const link = links.get(id)
        return link === undefined ? [] : [[id, link] as const]
      }),
    )

  return {
    create: (link, maxActive = Number.MAX_SAFE_INTEGER) =>
      write('flushed', () => {
        if (activeOf(link.storeId).length >= maxActive) throw tooManyLinks(maxActive)
        const created = { ...link, suspension: null, version: 1 }
        put(created)
        return created
      }),

    update: (id, patch, updatedAtMs, ofVersion) =>
      write('flushed', () => {
        const link = links.get(id)
        if (link === undefined || (ofVersion !== undefined && link.version !== ofVersion)) return undefined
        if (patch.slug !== undefined && patch.slug !== link.slug) keepFormerSlug(link, updatedAtMs)
        const given = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined))
        const next = { ...link, ...given, updatedAtMs, version: link.version + 1 }
        put(next)
        return next
      }),

    deactivate: (id, updatedAtMs) =>
      write('flushed', () => {
        const link = links.get(id)
        for (const [key] of slugsOf(id)) formerSlugs.delete(key)
        if (link?.isActive !== true) return false
        put({ ...link, isActive: false, updatedAtMs, version: link.version + 1 })
        cancelSessionsOf(memory, id, updatedAtMs)
        return true
      }),

    find: (id) => read(() => links.get(id)),

    page: (storeId, { state, isPaid: paid, words = [], ...page }) =>
      read(() => {
        const folded = words.map(foldedText)
        const found = activeOf(storeId).filter((link) => {
          const text = foldedText([link.title, link.slug, link.url, ...link.tags].join('\n'))
          return (
            (state === undefined || linkStateOf(link) === state) &&
            (paid === undefined || isPaid(link) === paid) &&
            folded.every((word) => text.includes(word))
          )
        })
        const { shown, nextCursor } = newestPage(found, page)
        return { links: shown, nextCursor }
      }),

    countOf: (storeId) => read(() => activeOf(storeId).length),

    importedFrom: (storeId, document) =>
      read(() =>
        activeOf(storeId).flatMap(({ id, title, slug, price, origin }) =>
          origin?.document === document ? [{ id, title, slug, price, origin }] : [],
        ),
      ),

    findAll: (ids) => read(() => known(ids)),

    titlesOf: (ids) => read(() => new Map([...known(ids)].map(([id, { title }]) => [id, title]))),

    listedOf: (storeId, page) =>
      read(() => {
        const found = activeOf(storeId).filter((link) => link.isPublic && !link.isStealth)
        const { shown, nextCursor } = newestPage(found, page)
        const links = shown.map(({ id, title, description, slug, price, linkType }) => ({
          ...{ id, title, description, slug, price, linkType },
        }))
        return { links, nextCursor }
      }),

    served: (username, slug) => read(() => served(username, slug)),

    allServed: () =>
      read(() =>
        links
          .values()
          .filter((link) => link.isActive)
          .sort((a, b) => (a.id < b.id ? -1 : 1))
          .map((link) => withStore(link, stores.get(link.storeId)!)),
      ),

    redirectOf: (username, slug, nowMs) =>
      read(() => {
        const former = formerNames.get(username)
        const current = storeCalled(username)
        const isCurrentlyLed = former !== undefined && former.expiresAtMs > nowMs
        const store = current ?? (isCurrentlyLed ? stores.get(former.storeId) : undefined)
        if (store === undefined) return undefined
        if (served(store.username, slug) !== undefined)
          return store.username === username ? undefined : { username: store.username, slug }
        const led = formerSlugs.get(`${store.id} ${slug}`)
        const target = led && led.expiresAtMs > nowMs ? links.get(led.linkId) : undefined
        // A link that became stealth has no address that a former one may lead to.
        if (target === undefined || !target.isActive || target.isStealth) return undefined
        return { username: store.username, slug: target.slug }
      }),

    setSuspension: (id, suspension, atMs) =>
      write('flushed', () => {
        const link = links.get(id)
        if (link === undefined) return
        if (suspension !== null && link.suspension === null)
          suspensions.set(id, [...(suspensions.get(id) ?? []), atMs])
        if (suspension !== null && link.suspension === null)
          tell(memory, {
            ...{
              kind: 'link.suspended',
              storeId: link.storeId,
              linkId: id,
              purchaseId: null,
              sessionId: null,
              endpointId: null,
            },
            ...{ detail: JSON.stringify(suspension), atMs },
          })
        put({ ...link, suspension, updatedAtMs: atMs, version: link.version + 1 })
      }),

    suspensionCount: (id, sinceMs) =>
      read(() => (suspensions.get(id) ?? []).filter((atMs) => atMs >= sinceMs).length),

    addHealthEvent: (event) =>
      write('visible', () => {
        if (event.kind === 'probe' && !event.isAskedBySeller) return noteChecks(memory.tables, [event])
        const kept = (health.get(event.linkId) ?? []).filter((one) => one.atMs >= event.atMs - KEPT_MS)
        const { latencyMs } = event
        const rounded = { ...event, latencyMs: latencyMs === null ? null : Math.round(latencyMs) }
        health.set(event.linkId, [...kept, rounded])
      }),

    healthEvents: (id, limit) =>
      read(() =>
        timelineOf(id)
          .map((event, i) => ({ event, i }))
          .sort((a, b) => b.event.atMs - a.event.atMs || b.i - a.i)
          .slice(0, limit)
          .map(({ event }) => event),
      ),
  }
}
