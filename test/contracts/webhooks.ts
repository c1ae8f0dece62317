import type { Test } from 'tap'
import type { WebhookKind } from '../../core/domain/webhook.ts'
import type { Books } from '../../core/ports/books.ts'
import type { Links } from '../../core/ports/links.ts'
import type { Purchases } from '../../core/ports/purchases.ts'
import type { Reviews } from '../../core/ports/reviews.ts'
import type { Stores } from '../../core/ports/stores.ts'
import {
  AT_ONCE_PER_ENDPOINT,
  AT_ONCE_PER_STORE,
  DELIVERY_LEASE_MS,
  EVENTS_KEPT_MS,
  LISTENING_DOUBT_MS,
  LONGEST_WAIT_MS,
  type NewEndpoint,
  type TakenDelivery,
  type Webhooks,
} from '../../core/ports/webhooks.ts'
import {
  type BooksUnderTest,
  change,
  claimed,
  saleOf,
  sampleClaim,
  sampleKey,
  sampleLink,
  samplePurchase,
  sampleStore,
  sell,
  startMs,
} from './samples.ts'

interface UnderTest extends BooksUnderTest {
  readonly books: Books
  readonly webhooks: Webhooks
  readonly links: Links
  readonly stores: Stores
  readonly purchases: Purchases
  readonly reviews: Reviews
}

const endpoint = (id: string, more: Partial<NewEndpoint> = {}): NewEndpoint => ({
  ...{ id, storeId: 'store-1', url: `https://${id}.test/`, description: '', salt: `salt of ${id}` },
  ...{
    kinds: ['purchase.confirmed', 'refund.due', 'refund.recorded', 'link.suspended'],
    createdAtMs: startMs,
  },
  ...more,
})

const confirmed = { tells: [{ kind: 'purchase.confirmed' }] } as const
const tried = (error: string | null = null) => ({
  ...{ atMs: startMs, status: error === null ? 200 : 500, latencyMs: 12, error, answer: 'so' },
})

/** What every store promises of endpoints and the outbox. */
export async function webhooksContract(t: Test, make: (t: Test) => Promise<UnderTest>): Promise<void> {
  const kindsOf = async ({ webhooks }: UnderTest) => (await webhooks.unspread(100)).map(({ kind }) => kind)

  /** Waits of so many sales, spread over the endpoints that there are. */
  async function sold(s: UnderTest, names: readonly string[], storeId = 'store-1'): Promise<void> {
    for (const name of names) {
      const claim = sampleClaim(name, { storeId })
      const row = await claimed(s, claim)
      await s.books.apply(change(claim, row, 'claimed', 'settling'))
      const sale = { ...saleOf(samplePurchase(claim, `0x${name}`)), ...confirmed }
      await s.books.apply(change(claim, row, 'settling', 'settled', sale))
    }
    await spreadAll(s)
  }
  async function spreadAll({ webhooks, clock }: UnderTest): Promise<void> {
    const events = await webhooks.unspread(1_000)
    await webhooks.spread(
      events.map(({ seq, id }) => ({ seq, body: `body of ${id}` })),
      clock.now(),
    )
  }
  const take = ({ webhooks, clock }: UnderTest, limit = 100) => webhooks.take({ limit, nowMs: clock.now() })

  t.test(
    'an event is written in the commit of its change, where somebody listens, and once of a purchase',
    async (t) => {
      const s = await make(t)
      const one = await sell(s, 'before', '0x1')
      await s.books.apply(change(one.claim, one.row, 'settled', 'delivered', confirmed))
      t.same(await kindsOf(s), [], 'nobody listens')
      await s.webhooks.create(endpoint('e1'), 9)
      await s.webhooks.create(endpoint('other', { storeId: 'store-2' }), 9)
      const two = await sell(s, 'after', '0x2')
      t.equal(await s.books.apply(change(two.claim, two.row, 'pending', 'delivered', confirmed)), false)
      t.same(await kindsOf(s), [], 'nor of a change whose condition did not hold')
      await s.books.apply(change(two.claim, two.row, 'settled', 'delivered', confirmed))
      const owed = { tells: [{ kind: 'refund.due', detail: 'upstream_error' }] } as const
      await s.books.apply(change(two.claim, two.row, 'delivered', 'refund_due', owed))
      await s.books.apply(change(two.claim, two.row, 'refund_due', 'settled', confirmed))
      const events = await s.webhooks.unspread(100)
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

  t.test('filters, disabled endpoints and those of other links hear of nothing', async (t) => {
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
    t.equal(await s.webhooks.remove('link-1'), false, 'the link says so, nobody else')
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
    const events = await s.webhooks.unspread(9)
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
    const events = await s.webhooks.unspread(9)
    t.equal(events.length, 1)
    t.match(events, [{ kind: 'review.created', purchaseId: purchase.id, linkId: 'link-1', atMs: startMs }])
    t.same(JSON.parse(events[0]!.detail!), { reviewId: 'r1', positive: true, comment: 'good' })
  })

  t.test('a body is given once, and every endpoint that asks gets one delivery', async (t) => {
    const s = await make(t)
    for (const id of ['e1', 'e2']) await s.webhooks.create(endpoint(id), 9)
    await sell(s, 'a', '0xa')
    const { row, claim } = await sell(s, 'b', '0xb')
    await s.books.apply(change(claim, row, 'settled', 'delivered', confirmed))
    const [event] = await s.webhooks.unspread(9)
    await s.webhooks.spread([{ seq: event!.seq, body: 'first' }], s.clock.now())
    await s.webhooks.spread([{ seq: event!.seq, body: 'second' }], s.clock.now())
    t.same(await s.webhooks.unspread(9), [])
    const taken = await take(s)
    t.same(taken.map(({ endpoint: { id } }) => id).sort(), ['e1', 'e2'])
    t.match(taken, [{ body: 'first', event: { id: event!.id }, tries: 0, taking: 1 }, { body: 'first' }])
  })

  t.test('a delivery is in one hand at a time; a hand that is too slow can not write', async (t) => {
    const s = await make(t)
    await s.webhooks.create(endpoint('e1'), 9)
    await sold(s, ['a'])
    const [first] = await take(s)
    t.same(await take(s), [])
    s.storeClock.nowMs += DELIVERY_LEASE_MS
    const [second] = await take(s)
    t.match(second, { id: first!.id, taking: 2, tries: 0 })
    t.equal(await s.webhooks.note({ ...first!, try: tried(), to: 'delivered' }), false)
    s.storeClock.nowMs = 0
    const [third] = await take(s)
    t.equal(third!.taking, 3, 'a lease of before the machine was started is over')
    t.equal(await s.webhooks.note({ ...third!, try: tried(), to: 'delivered' }), true)
    t.equal(await s.webhooks.note({ ...third!, try: tried(), to: 'delivered' }), false)
    t.same(await take(s), [])
    t.match(await s.webhooks.delivery(first!.id), {
      delivery: { state: 'delivered', tries: 1, dueAtMs: null, kind: 'purchase.confirmed' },
      body: /^body of msg_/,
      tries: [tried()],
    })
  })

  t.test(
    'a delivery waits for its time, and for none that only a clock that was ahead has set',
    async (t) => {
      const s = await make(t)
      await s.webhooks.create(endpoint('e1'), 9)
      await sold(s, ['a'])
      const [first] = await take(s)
      const dueAtMs = startMs + 5_000
      await s.webhooks.note({ ...first!, try: tried('500'), to: 'waiting', dueAtMs })
      t.match(await s.webhooks.find('e1'), { failingSinceMs: startMs })
      t.same(await take(s), [])
      s.clock.nowMs = dueAtMs
      const [second] = await take(s)
      t.match(second, { tries: 1, endpoint: { failingSinceMs: startMs } })
      await s.webhooks.note({ ...second!, try: null, to: 'waiting', dueAtMs: startMs + 2 * LONGEST_WAIT_MS })
      const [third] = await take(s)
      t.match(third, { tries: 1 })
      await s.webhooks.note({ ...third!, try: tried(), to: 'delivered' })
      t.match(await s.webhooks.find('e1'), { failingSinceMs: null })
    },
  )

  t.test('stores take turns, and neither a store nor an endpoint has more than its share', async (t) => {
    const s = await make(t)
    await s.webhooks.create(endpoint('a1', { storeId: 'a' }), 9)
    for (const id of ['b1', 'b2', 'b3']) await s.webhooks.create(endpoint(id, { storeId: 'b' }), 9)
    const names = Array.from({ length: 10 }, (_, i) => String(i))
    await sold(
      s,
      names.map((name) => `b${name}`),
      'b',
    )
    await sold(
      s,
      names.map((name) => `a${name}`),
      'a',
    )
    const taken = await take(s, 100)
    const of = (id: string) => taken.filter(({ endpoint }) => endpoint.id === id).length
    t.equal(of('a1'), AT_ONCE_PER_ENDPOINT)
    t.equal(of('b1') + of('b2') + of('b3'), AT_ONCE_PER_STORE)
    t.ok(Math.max(of('b1'), of('b2'), of('b3')) <= AT_ONCE_PER_ENDPOINT)
    t.same(await take(s, 100), [], 'what is in hand counts')
    for (const one of taken) await s.webhooks.note({ ...one, try: tried(), to: 'delivered' })
    const turns: string[] = []
    for (let i = 0; i < 4; i++) turns.push((await take(s, 1))[0]!.endpoint.storeId)
    t.ok(['a,b,a,b', 'b,a,b,a'].includes(String(turns)), String(turns))
  })

  t.test('stores that can not be sent anything now do not keep another one from its turn', async (t) => {
    const s = await make(t)
    for (let i = 100; i < 250; i++) {
      const storeId = `a${i}`
      await s.webhooks.create(endpoint(storeId, { storeId }), 9)
      await sold(s, [storeId, `${storeId} again`], storeId)
    }
    const ofEach: TakenDelivery[] = []
    while (ofEach.length < 150) ofEach.push(...(await take(s, 1)))
    for (const one of ofEach.slice(0, 150))
      await s.webhooks.note({ ...one, try: tried('500'), to: 'waiting', dueAtMs: startMs })
    // One of each that fails is in hand, and the other one has to wait for it.
    for (let i = 0; i < 10; i++) await take(s, 200)
    await s.webhooks.create(endpoint('b1', { storeId: 'b' }), 9)
    await sold(s, ['b'], 'b')
    const reached: string[] = []
    for (let i = 0; i < 4; i++) reached.push(...(await take(s)).map(({ endpoint: { id } }) => id))
    t.same(reached, ['b1'])
  })

  t.test('an endpoint that is failing has one delivery in hand', async (t) => {
    const s = await make(t)
    await s.webhooks.create(endpoint('e1'), 9)
    await sold(s, ['a', 'b', 'c'])
    const taken = await take(s, 1)
    await s.webhooks.note({ ...taken[0]!, try: tried('500'), to: 'waiting', dueAtMs: s.clock.now() })
    t.equal((await take(s)).length, 1)
  })

  t.test(
    'of what is due to an endpoint the oldest goes first, so that each comes to its last try',
    async (t) => {
      const s = await make(t)
      await s.webhooks.create(endpoint('e1'), 9)
      await sold(s, ['a', 'b', 'c'])
      const [first] = await take(s, 1)
      s.clock.nowMs += 5_000
      await s.webhooks.note({ ...first!, try: tried('500'), to: 'waiting', dueAtMs: s.clock.now() })
      t.match(await take(s), [{ id: first!.id, tries: 1 }], 'although the others are due for longer')
    },
  )

  t.test('a disabled endpoint holds what waits, and goes on with it when it is enabled', async (t) => {
    const s = await make(t)
    await s.webhooks.create(endpoint('e1'), 9)
    await sold(s, ['a', 'b', 'c'])
    const [gone, slow] = await take(s, 2)
    await s.webhooks.note({ ...gone!, try: tried('410'), to: 'failed', disable: { reason: 'gone' } })
    t.match(await s.webhooks.find('e1'), { disabledReason: 'gone', disabledAtMs: startMs })
    t.equal(await s.webhooks.test('e1', 'msg_1', startMs), undefined)
    await s.webhooks.note({ ...slow!, try: tried('500'), to: 'waiting', dueAtMs: startMs })
    t.same(await take(s), [])
    t.match(await s.webhooks.delivery(slow!.id), { delivery: { state: 'held', dueAtMs: null } })
    t.equal(await s.webhooks.replay(gone!.id, startMs), false)
    await s.webhooks.change('e1', { isEnabled: true }, startMs)
    const inHand = (await take(s))[0]!
    await s.webhooks.change('e1', { isEnabled: false }, startMs)
    await s.webhooks.note({ ...inHand, try: null, to: 'waiting' })
    t.same(await take(s), [], 'held too when its taker ended before it knew how it went')
    s.storeClock.nowMs += DELIVERY_LEASE_MS
    await s.webhooks.change('e1', { isEnabled: true }, startMs)
    t.match(await s.webhooks.find('e1'), { disabledReason: null, disabledAtMs: null, failingSinceMs: null })
    t.equal((await take(s)).length, 2)
    t.equal(await s.webhooks.replay(gone!.id, startMs), true)
    t.match(await take(s), [{ id: gone!.id, event: gone!.event, tries: 0 }], 'under the id that it had')
  })

  t.test('an endpoint is disabled for failing only when nothing got through since', async (t) => {
    const s = await make(t)
    await s.webhooks.create(endpoint('e1'), 9)
    await sold(s, ['a', 'b'])
    const [first] = await take(s, 1)
    const failing = (since: number) => ({ reason: 'failing', ifFailingSinceMs: since }) as const
    await s.webhooks.note({ ...first!, try: tried('500'), to: 'failed', disable: failing(startMs - 1) })
    t.equal((await s.webhooks.find('e1'))!.disabledAtMs, null)
    const [second] = await take(s, 1)
    await s.webhooks.note({ ...second!, try: tried('500'), to: 'failed', disable: failing(startMs) })
    t.equal((await s.webhooks.find('e1'))!.disabledReason, 'failing')
  })

  t.test('endpoints are counted, changed, rotated and removed', async (t) => {
    const s = await make(t)
    await s.webhooks.create(endpoint('e1'), 1)
    await t.rejects(s.webhooks.create(endpoint('e2'), 1), { code: 'LIMIT_REACHED' })
    const rotation = { salt: 'new', previousUntilMs: startMs + 9 }
    t.match(
      await s.webhooks.change('e1', { url: 'https://x.test/', rotation, description: 'd' }, startMs + 1),
      {
        ...{ salt: 'new', previousSalt: 'salt of e1', previousUntilMs: startMs + 9, url: 'https://x.test/' },
        ...{ description: 'd', updatedAtMs: startMs + 1, createdAtMs: startMs },
      },
    )
    t.equal(await s.webhooks.change('none', { description: '' }, startMs), undefined)
    t.equal(await s.webhooks.remove('e1'), true)
    t.equal(await s.webhooks.remove('e1'), false)
    t.equal(await s.webhooks.find('e1'), undefined)
  })

  t.test('a test goes to its endpoint only', async (t) => {
    const s = await make(t)
    for (const id of ['e1', 'e2']) await s.webhooks.create(endpoint(id, { kinds: ['refund.due'] }), 9)
    t.equal(await s.webhooks.test('e2', 'msg_t', startMs), 'msg_t')
    await spreadAll(s)
    t.match(await take(s), [{ endpoint: { id: 'e2' }, event: { id: 'msg_t', kind: 'test' } }])
    t.equal(await s.webhooks.test('none', 'msg_u', startMs), undefined)
  })

  t.test('deliveries are paged newest first, and forgotten with their events', async (t) => {
    const s = await make(t)
    await s.webhooks.create(endpoint('e1'), 9)
    await sold(s, ['a', 'b', 'c'])
    const first = await s.webhooks.deliveries('e1', { limit: 2 })
    const second = await s.webhooks.deliveries('e1', { limit: 2, cursor: first.nextCursor! })
    t.equal(first.deliveries.length, 2)
    t.equal(second.deliveries.length, 1)
    t.equal(second.nextCursor, null)
    t.equal(new Set([...first.deliveries, ...second.deliveries].map(({ id }) => id)).size, 3)
    t.equal(await s.webhooks.forget(startMs, 9), 0)
    t.equal(await s.webhooks.forget(startMs + 1, 9), 0, 'none that waits')
    for (const one of await take(s)) await s.webhooks.note({ ...one, try: tried(), to: 'delivered' })
    const claim = sampleClaim('unspread')
    const row = await claimed(s, claim)
    await s.books.apply(change(claim, row, 'claimed', 'settling'))
    const sale = { ...saleOf(samplePurchase(claim, '0xunspread')), ...confirmed }
    await s.books.apply(change(claim, row, 'settling', 'settled', sale))
    t.equal(await s.webhooks.forget(startMs + 1, 2), 2)
    t.equal(await s.webhooks.forget(startMs + 1, 2), 1)
    t.same((await s.webhooks.deliveries('e1', { limit: 9 })).deliveries, [])
    t.equal((await s.webhooks.unspread(9)).length, 1, 'nor one that nobody was told of yet')
  })

  t.test('the ledger check demands the event of a purchase that somebody listened for', async (t) => {
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
      `purchase ${purchase.id} has no event, and the webhook e1 should hear of it`,
    ])
    await s.books.apply(
      change(claim, row, 'settled', 'delivered', { ...confirmed, purchaseStatus: 'delivered' }),
    )
    t.same((await s.purchases.ledgerCheck()).broken, [])
    s.clock.nowMs += EVENTS_KEPT_MS + 1
    await s.webhooks.forget(s.clock.now(), 9)
    t.same((await s.purchases.ledgerCheck()).broken, [], 'what is forgotten is not demanded')
  })
}
