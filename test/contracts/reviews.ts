import type { Test } from 'tap'
import type { Review } from '../../core/domain/review.ts'
import type { Links } from '../../core/ports/store/links.ts'
import type { Reviews } from '../../core/ports/store/reviews.ts'
import type { Stores } from '../../core/ports/store/stores.ts'
import { sampleKey, sampleLink, sampleStore, startMs } from './samples.ts'

export interface ReviewsUnderTest {
  readonly reviews: Reviews
  readonly links: Links
  readonly stores: Stores
}

export const sampleReview = (name: string, linkId: string, more: Partial<Review> = {}): Review => ({
  ...{ id: `review-${name}`, purchaseId: `purchase-of-${name}`, linkId, storeId: 's1' },
  ...{ wallet: '0x1111111111111111111111111111111111111111', isPositive: true, comment: null },
  createdAtMs: startMs,
  ...more,
})

/** What every implementation of the port Reviews keeps. */
export function reviewsContract(t: Test, make: (t: Test) => Promise<ReviewsUnderTest>): void {
  const page = { limit: 10, offset: 0 }
  const shop = async (t: Test) => {
    const under = await make(t)
    await under.stores.create(sampleStore('s1'), null, sampleKey('k1', 's1'))
    for (const id of ['l1', 'l2']) await under.links.create(sampleLink(id, 's1'))
    return under
  }

  t.test('a review comes back as it was given, newest first, with the counts of all', async (t) => {
    const { reviews } = await shop(t)
    const [first, second] = [
      sampleReview('a', 'l1', { comment: 'Good, 世界 😀\nagain' }),
      sampleReview('b', 'l1', { isPositive: false, createdAtMs: startMs + 1 }),
    ]
    for (const one of [first, second, sampleReview('c', 'l2')]) await reviews.add(one)
    const counts = { total: 2, positive: 1 }
    t.strictSame(await reviews.ofLink('l1', page), { reviews: [second, first], counts })
    t.strictSame(await reviews.ofLink('l1', { limit: 1, offset: 1 }), { reviews: [first], counts })
    t.strictSame(await reviews.ofLink('l1', { limit: 1, offset: 9 }), { reviews: [], counts })
    t.strictSame(await reviews.ofLink('none', page), { reviews: [], counts: { total: 0, positive: 0 } })
  })

  t.test('a purchase has one review, however many come at once, and it is counted once', async (t) => {
    const { reviews } = await shop(t)
    const results = await Promise.allSettled(
      ['a', 'b', 'c', 'd'].map((id) => reviews.add(sampleReview('one', 'l1', { id, comment: id }))),
    )
    t.equal(results.filter((r) => r.status === 'fulfilled').length, 1)
    t.ok(results.every((r) => r.status === 'fulfilled' || r.reason.code === 'ALREADY_REVIEWED'))
    const { counts } = await reviews.ofLink('l1', page)
    t.strictSame(counts, { total: 1, positive: 1 })
  })

  t.test('those of a store are of the links that it shows', async (t) => {
    const { reviews, links, stores } = await shop(t)
    await stores.create(sampleStore('s2'), null, sampleKey('k2', 's2'))
    await links.create(sampleLink('l3', 's2'))
    const hidden = { isStealth: true, privateSlug: 'secret' }
    await links.create(sampleLink('stealth', 's1', hidden))
    await links.create(sampleLink('unlisted', 's1', { isPublic: false }))
    for (const id of ['l1', 'l2', 'stealth', 'unlisted']) await reviews.add(sampleReview(id, id))
    await reviews.add(sampleReview('l3', 'l3', { storeId: 's2', isPositive: false }))
    const ofStore = async () => {
      const found = await reviews.ofStore('s1', page)
      return { links: found.reviews.map(({ linkId }) => linkId), counts: found.counts }
    }
    t.strictSame(await ofStore(), { links: ['l2', 'l1'], counts: { total: 2, positive: 2 } })
    await links.deactivate('l2', startMs)
    t.strictSame(await ofStore(), { links: ['l1'], counts: { total: 1, positive: 1 } })
    t.strictSame((await reviews.ofLink('stealth', page)).counts, { total: 1, positive: 1 })
  })
}
