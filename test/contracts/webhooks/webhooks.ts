import type { Test } from 'tap'
import {
  AT_ONCE_PER_ENDPOINT,
  AT_ONCE_PER_STORE,
  DELIVERY_LEASE_MS,
  LONGEST_WAIT_MS,
  type TakenDelivery,
} from '../../../core/ports/store/webhooks.ts'
import { change, claimed, saleOf, sampleClaim, samplePurchase, sell, startMs } from '../samples.ts'
import {
  confirmed,
  endpoint,
  fanOutAll,
  sold,
  take,
  tried,
  type WebhooksUnderTest,
} from './webhookSamples.ts'

/** What every store promises of endpoints and their deliveries. */
export async function webhooksContract(
  t: Test,
  make: (t: Test) => Promise<WebhooksUnderTest>,
): Promise<void> {
  t.test('a body is given once, and every endpoint that asks gets one delivery', async (t) => {
    const s = await make(t)
    for (const id of ['e1', 'e2']) await s.webhooks.create(endpoint(id), 9)
    await sell(s, 'a', '0xa')
    const { row, claim } = await sell(s, 'b', '0xb')
    await s.ledger.apply(change(claim, row, 'settled', 'delivered', confirmed))
    const [event] = await s.webhooks.awaitingFanOut(9)
    await s.webhooks.fanOut([{ seq: event!.seq, body: 'first' }], s.clock.now())
    await s.webhooks.fanOut([{ seq: event!.seq, body: 'second' }], s.clock.now())
    t.same(await s.webhooks.awaitingFanOut(9), [])
    const taken = await take(s)
    t.same(taken.map(({ endpoint: { id } }) => id).sort(), ['e1', 'e2'])
    t.match(taken, [{ body: 'first', event: { id: event!.id }, tries: 0, taking: 1 }, { body: 'first' }])
  })

  t.test(
    'a delivery is leased to one process at a time; a process that is too slow cannot write',
    async (t) => {
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
    },
  )

  t.test('a process that read the clock before another took a delivery does not take it too', async (t) => {
    const s = await make(t)
    await s.webhooks.create(endpoint('e1'), 9)
    await sold(s, ['a'])
    // A writer has a queue, and a server's clock is put right by some milliseconds.
    for (const beforeMs of [1, 250, 4_500]) {
      s.storeClock.nowMs += beforeMs
      const [taken] = await take(s)
      t.ok(taken)
      s.storeClock.nowMs -= beforeMs
      t.same(await take(s), [], `${beforeMs} ms before`)
      await s.webhooks.note({ ...taken!, try: null, to: 'waiting' })
    }
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
    // Endpoints take turns from anywhere among them, mostly from between these.
    await s.webhooks.create(endpoint('0', { storeId: 'a' }), 9)
    for (const id of ['f1', 'f2', 'f3']) await s.webhooks.create(endpoint(id, { storeId: 'b' }), 9)
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
    t.equal(of('0'), AT_ONCE_PER_ENDPOINT)
    t.equal(of('f1') + of('f2') + of('f3'), AT_ONCE_PER_STORE)
    t.ok(Math.max(of('f1'), of('f2'), of('f3')) <= AT_ONCE_PER_ENDPOINT)
    t.same(await take(s, 100), [], 'what is in hand counts')
    for (const one of taken) await s.webhooks.note({ ...one, try: tried(), to: 'delivered' })
    const turns: string[] = []
    for (let i = 0; i < 4; i++) turns.push((await take(s, 1))[0]!.endpoint.storeId)
    t.ok(['a,b,a,b', 'b,a,b,a'].includes(String(turns)), String(turns))
  })

  t.test('stores whose endpoints cannot be reached now do not keep another one from its turn', async (t) => {
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
    await sold(s, ['a', 'b'])
    const [inHand, waiting] = await take(s, 2)
    await s.webhooks.note({ ...waiting!, try: null, to: 'waiting' })
    t.equal(await s.webhooks.remove('e1'), true)
    t.equal(await s.webhooks.remove('e1'), false)
    t.equal(await s.webhooks.find('e1'), undefined)
    t.equal(await s.webhooks.note({ ...inHand!, try: tried(), to: 'delivered' }), false)
    for (const { id } of [inHand!, waiting!])
      t.match(await s.webhooks.delivery(id), { delivery: { state: 'failed', dueAtMs: null } })
  })

  t.test('a test goes to its endpoint only', async (t) => {
    const s = await make(t)
    for (const id of ['e1', 'e2']) await s.webhooks.create(endpoint(id, { kinds: ['refund.due'] }), 9)
    t.equal(await s.webhooks.test('e2', 'msg_t', startMs), 'msg_t')
    await fanOutAll(s)
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
    const claim = sampleClaim('awaitingFanOut')
    const row = await claimed(s, claim)
    await s.ledger.apply(change(claim, row, 'claimed', 'settling'))
    const sale = { ...saleOf(samplePurchase(claim, '0xunspread')), ...confirmed }
    await s.ledger.apply(change(claim, row, 'settling', 'settled', sale))
    t.equal(await s.webhooks.forget(startMs + 1, 2), 2)
    t.equal(await s.webhooks.forget(startMs + 1, 2), 1)
    t.same((await s.webhooks.deliveries('e1', { limit: 9 })).deliveries, [])
    t.equal((await s.webhooks.awaitingFanOut(9)).length, 1, 'nor one that was not fanned out yet')
  })
}
