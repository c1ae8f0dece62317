import { type Link, payoutFor } from '../../../core/domain/link.ts'
import { POPULAR_MS, popularityOf, UPTIME_MS } from '../../../core/domain/popularity.ts'
import { type ReviewCounts, ratingOf } from '../../../core/domain/review.ts'
import type { Discovery, DiscoveryQuery } from '../../../core/ports/store/discovery.ts'
import { DAY_MS, HOUR_MS } from '../../../core/ports/store/figures.ts'
import type { Access } from './access.ts'
import { canonical } from './books.ts'
import type { CheckHourRow, Tables } from './memory.ts'

/** The marketplace in memory. */
export function createDiscovery(tables: Tables, { read, write }: Access): Discovery {
  const { links, stores, reviews, purchases, wallets, checkHours, popularity } = tables
  const storeOf = (link: Link) => stores.get(link.storeId)!
  const isListed = (link: Link) =>
    link.isActive && link.isPublic && !link.isStealth && link.suspension === null

  function countsOf(linkId: string): ReviewCounts {
    const all = reviews.values().filter((review) => review.linkId === linkId)
    return { total: all.length, positive: all.filter(({ isPositive }) => isPositive).length }
  }

  const popularityNow = (link: Link) => popularity.get(link.id)?.popularity ?? 0
  const newestFirst = (a: Link, b: Link) => b.createdAtMs - a.createdAtMs || (a.id < b.id ? 1 : -1)
  const popular = (a: Link, b: Link) => popularityNow(b) - popularityNow(a) || newestFirst(a, b)
  const orderOf = ({ sort, words = [] }: DiscoveryQuery): ((a: Link, b: Link) => number) => {
    const price = (link: Link) => Number(link.price)
    const fit = (link: Link) => {
      const { username, displayName } = storeOf(link)
      const texts = [link.title, link.description, link.tags.join(' '), `${username} ${displayName}`]
      return texts.reduce((sum, text, i) => sum + [8, 1, 4, 2][i]! * hits(text, words), 0)
    }
    if (sort === 'relevance') return (a, b) => fit(b) - fit(a) || popular(a, b)
    if (sort === 'popular') return popular
    if (sort === 'price_asc') return (a, b) => price(a) - price(b) || newestFirst(a, b)
    if (sort === 'price_desc') return (a, b) => price(b) - price(a) || newestFirst(a, b)
    return newestFirst
  }

  function fits(link: Link, wanted: DiscoveryQuery): boolean {
    const { words, linkType, minPrice, maxPrice, chain, tag, username, isFree, minRating } = wanted
    const { payout, ...store } = storeOf(link)
    const price = Number(link.price)
    const rating = minRating === undefined ? null : ratingOf(countsOf(link.id))
    const network = chain === 'solana' ? 'solana:any' : 'eip155:1'
    return (
      (linkType === undefined || link.linkType === linkType) &&
      (minPrice === undefined || price >= Number(minPrice)) &&
      (maxPrice === undefined || price <= Number(maxPrice)) &&
      (isFree === undefined || isFree === (price === 0)) &&
      (chain === undefined || (price > 0 && payoutFor(payout, network) !== null)) &&
      (tag === undefined || link.tags.includes(tag)) &&
      (username === undefined || store.username === username) &&
      (minRating === undefined || (rating !== null && rating >= minRating)) &&
      (words === undefined ||
        (words.length > 0 &&
          words.every((word) => {
            const { title, description, tags } = link
            const text = [title, description, ...tags, store.username, store.displayName].join(' ')
            return hits(text, [word]) > 0
          })))
    )
  }

  function demandOf(link: Link, nowMs: number) {
    const { payout } = storeOf(link)
    const own = new Set([
      ...wallets.values().flatMap((one) => (one.storeId === link.storeId ? [one.address] : [])),
      payout.base?.toLowerCase(),
      payout.solana,
    ])
    const sold = purchases
      .values()
      .map(({ purchase }) => ({ ...purchase, wallet: canonical(purchase.network, purchase.buyerWallet) }))
      .filter(
        ({ linkId, status, wallet }) =>
          linkId === link.id && (status === 'settled' || status === 'delivered') && !own.has(wallet),
      )
    const payersSince = (sinceMs: number) =>
      new Set(sold.filter(({ createdAtMs }) => createdAtMs >= sinceMs).map(({ wallet }) => wallet)).size
    const firstDay = Math.floor((nowMs - UPTIME_MS) / DAY_MS) + 1
    const hours = checkHours
      .values()
      .filter((one) => one.linkId === link.id && one.hour * HOUR_MS >= firstDay * DAY_MS)
    const sum = (of: (hour: CheckHourRow) => number) => hours.reduce((all, hour) => all + of(hour), 0)
    const [checks, failed] = [sum((hour) => hour.checks), sum((hour) => hour.failed)]
    return {
      buyers: payersSince(0),
      popularity: popularityOf({
        payers: payersSince(nowMs - POPULAR_MS),
        lastSaleAtMs: sold.reduce((last, { createdAtMs }) => Math.max(last, createdAtMs), 0),
        uptime: checks === 0 ? 1 : 1 - failed / checks,
        reviews: countsOf(link.id),
      }),
    }
  }

  return {
    search: (wanted) =>
      read(() => {
        const found = links
          .values()
          .filter((link) => isListed(link) && fits(link, wanted))
          .sort(orderOf(wanted))
        const page = found.slice(wanted.offset, wanted.offset + wanted.limit)
        return {
          total: found.length,
          links: page.map((link) => {
            const { id, title, description, slug, price, linkType, methods, tags, createdAtMs } = link
            const { username, displayName, avatarUrl } = storeOf(link)
            return {
              ...{ id, title, description, slug, price, linkType, methods, tags, createdAtMs },
              ...{ username, displayName, avatarUrl },
              ...{ buyers: popularity.get(id)?.buyers ?? 0, reviews: countsOf(id) },
            }
          }),
        }
      }),

    recount: (nowMs) =>
      write('visible', () => {
        let changed = 0
        for (const link of links.values()) {
          const now = demandOf(link, nowMs)
          const before = popularity.get(link.id)
          if (now.buyers === (before?.buyers ?? 0) && now.popularity === (before?.popularity ?? 0)) continue
          popularity.set(link.id, now)
          changed++
        }
        return changed
      }),
  }
}

/** How many words of a text begin with one of these, accents aside. */
function hits(text: string, words: readonly string[]): number {
  const bare = (word: string) => word.normalize('NFKD').replace(/\p{M}/gu, '')
  const all =
    text
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{N}\p{M}]+/gu) ?? []
  const begins = (word: string, wanted: string) =>
    wanted.length > 1 ? bare(word).startsWith(bare(wanted)) : bare(word) === bare(wanted)
  return words.reduce((sum, wanted) => sum + all.filter((word) => begins(word, wanted)).length, 0)
}
