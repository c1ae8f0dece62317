import type { Test } from 'tap'
import type { WebhookKind } from '../../../core/domain/webhook.ts'
import { EVENT_RETENTION_MS, LISTENING_DOUBT_MS } from '../../../core/ports/store/webhooks.ts'
import { change, sampleKey, sampleLink, sampleStore, sell, startMs } from '../samples.ts'
import { confirmed, endpoint, kindsOf, sold, take, tried, type WebhooksUnderTest } from './webhookSamples.ts'

/** What every store promises of the events that it writes for endpoints. */
export async function webhookEventsContract(
  t: Test,
  make: (t: Test) => Promise<WebhooksUnderTest>,
): Promise<void> {
  t.test(
    'an event is written in the commit of its change, if an endpoint listens, and once for a purchase',
    async (t) => {
      const s = await make(t)
      const one = await sell(s, 'before', '0x1')
      await s.ledger.apply(change(one.claim, one.row, 'settled', 'delivered', confirmed))
      t.same(await kindsOf(s), [], 'nobody listens')
      await s.webhooks.create(endpoint('e1'), 9)
      await s.webhooks.create(endpoint('other', { storeId: 'store-2' }), 9)
      const two = await sell(s, 'after', '0x2')
      t.equal(await s.ledger.apply(change(two.claim, two.row, 'pending', 'delivered', confirmed)), false)
      t.same(await kindsOf(s), [], 'nor of a change whose condition did not hold')
      await s.ledger.apply(change(two.claim, two.row, 'settled', 'delivered', confirmed))
      const owed = { events: [{ kind: 'refund.due', detail: 'upstream_error' }] } as const
      await s.ledger.apply(change(two.claim, two.row, 'delivered', 'refund_due', owed))
      await s.ledger.apply(change(two.claim, two.row, 'refund_due', 'settled', confirmed))
      const events = await s.webhooks.awaitingFanOut(100)
      t.match(events, [
        {
          kind: 'purchase.confirmed',
          purchaseId: two.claim.purchaseId,
          linkId: 'link-1',
          storeId: 'store-1',
        },
        { kind: 'refund.due', detail: 'upstream_error' },
      ])
      t.equal(events.length, 2)
      t.equal(new Set(events.map(({ id }) => id)).size, 2)
      t.match(events[0]!.id, /^msg_[0-9a-f]{32}$/)
    },
  )

  t.test('filters, disabled endpoints and those of other links receive nothing', async (t) => {
    const s = await make(t)
    await s.webhooks.create(endpoint('refunds', { kinds: ['refund.due'] as WebhookKind[] }), 9)
    await s.webhooks.create(endpoint('off'), 9)
    await s.webhooks.change('off', { isEnabled: false }, startMs)
    await sold(s, ['a'])
    t.same(await take(s), [])
    await s.webhooks.change('refunds', { kinds: ['purchase.confirmed'] }, startMs)
    await sold(s, ['b'])
    t.match(await take(s), [{ endpoint: { id: 'refunds' }, event: { kind: 'purchase.confirmed' } }])
  })

  t.test("a link's webhookUrl is an endpoint of the link's id as long as it is set", async (t) => {
    const s = await make(t)
    await s.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
    await s.links.create(sampleLink('link-0', 'store-1'))
    await s.links.create(sampleLink('link-1', 'store-1', { webhookUrl: 'https://a.test/' }))
    t.same(
      (await s.webhooks.ofStore('store-1')).map(({ id }) => id),
      ['link-1'],
    )
    const first = (await s.webhooks.find('link-1'))!
    t.match(first, { linkId: 'link-1', url: 'https://a.test/', kinds: ['purchase.confirmed', 'test'] })
    t.match(first.salt, /^[0-9a-f]{32}$/)
    await s.links.update('link-1', { title: 'Other' }, startMs + 1)
    t.same(await s.webhooks.find('link-1'), first)
    await sold(s, ['a'])
    await s.webhooks.change('link-1', { isEnabled: false }, startMs)
    t.same(await take(s), [], 'held')
    await s.links.update('link-1', { webhookUrl: 'https://b.test/' }, startMs + 2)
    const [taken] = await take(s)
    t.match(taken, { endpoint: { url: 'https://b.test/', salt: first.salt, disabledAtMs: null } })
    await s.links.deactivate('link-1', startMs + 3)
    t.ok(await s.webhooks.find('link-1'), 'a sale that is found later is told all the same')
    t.same(await s.webhooks.ofStore('store-1'), [], 'but it is no part of a list that would only grow')
    t.equal(await s.webhooks.remove('link-1'), false, 'only its link can remove it')
    await s.links.update('link-1', { webhookUrl: null }, startMs + 4)
    t.equal(await s.webhooks.find('link-1'), undefined)
    t.equal(
      await s.webhooks.note({ id: taken!.id, taking: taken!.taking, try: tried(), to: 'delivered' }),
      false,
    )
    await s.links.update('link-1', { webhookUrl: 'https://c.test/' }, startMs + 5)
    t.not((await s.webhooks.find('link-1'))!.salt, first.salt, 'a new one, a new secret')
  })

  t.test('a link that is suspended is told of once', async (t) => {
    const s = await make(t)
    await s.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
    await s.links.create(sampleLink('link-1', 'store-1'))
    const suspension = { sinceMs: 1, reason: 'down', cooldownUntilMs: 2, permanent: false }
    await s.links.setSuspension('link-1', suspension, startMs)
    await s.links.setSuspension('link-1', null, startMs)
    t.same(await kindsOf(s), [])
    await s.webhooks.create(endpoint('e1'), 9)
    await s.links.setSuspension('link-1', suspension, startMs)
    await s.links.setSuspension('link-1', suspension, startMs)
    const events = await s.webhooks.awaitingFanOut(9)
    t.match(events, [{ kind: 'link.suspended', linkId: 'link-1', purchaseId: null }])
    t.equal(events.length, 1)
    t.same(JSON.parse(events[0]!.detail!), suspension)
  })

  t.test('a review is told of in its own commit, and none that was refused', async (t) => {
    const s = await make(t)
    await s.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
    await s.links.create(sampleLink('link-1', 'store-1'))
    await s.webhooks.create(endpoint('e1', { kinds: ['review.created'] }), 9)
    const { purchase } = await sell(s, 'a', '0xa')
    const review = {
      ...{ id: 'r1', purchaseId: purchase.id, linkId: 'link-1', storeId: 'store-1', wallet: '0x1' },
      ...{ isPositive: true, comment: 'good', createdAtMs: startMs },
    }
    await s.reviews.add(review)
    await t.rejects(s.reviews.add({ ...review, id: 'r2' }))
    const events = await s.webhooks.awaitingFanOut(9)
    t.equal(events.length, 1)
    t.match(events, [{ kind: 'review.created', purchaseId: purchase.id, linkId: 'link-1', atMs: startMs }])
    t.same(JSON.parse(events[0]!.detail!), { reviewId: 'r1', positive: true, comment: 'good' })
  })

  t.test('the ledger check demands the event of a purchase that an endpoint listened for', async (t) => {
    const s = await make(t)
    await s.webhooks.create(endpoint('e1'), 9)
    const at = (createdAtMs: number) => ({ createdAtMs })
    await sell(s, 'near', '0x1', at(startMs + LISTENING_DOUBT_MS))
    t.same(
      (await s.purchases.ledgerCheck()).broken,
      [],
      'it may have been booked before the endpoint was there',
    )
    const { purchase, row, claim } = await sell(s, 'later', '0x2', at(startMs + LISTENING_DOUBT_MS + 1))
    t.same((await s.purchases.ledgerCheck()).broken, [
      `purchase ${purchase.id} has no event, and the webhook e1 should have one`,
    ])
    await s.ledger.apply(
      change(claim, row, 'settled', 'delivered', { ...confirmed, purchaseStatus: 'delivered' }),
    )
    t.same((await s.purchases.ledgerCheck()).broken, [])
    s.clock.nowMs += EVENT_RETENTION_MS + 1
    await s.webhooks.forget(s.clock.now(), 9)
    t.same((await s.purchases.ledgerCheck()).broken, [], 'what is forgotten is not demanded')
  })
}
