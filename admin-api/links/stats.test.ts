import t, { type Test } from 'tap'
import { DAY_MS, HOUR_MS } from '../../core/ports/store/stats.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

/** A store with two links, at half past noon. */
async function shop(t: Test) {
  const f = await startAdmin(t)
  const { key, id: storeId, wallet } = await f.store()
  const url = await f.seller()
  const link = async (title: string) =>
    (await f.call('POST', '/api/v1/links', { key, body: { url, title, price: '0.10' } })).body.data.id
  const [one, two] = [await link('One'), await link('Two')]
  f.clock.nowMs += 100 * DAY_MS + 12.5 * HOUR_MS
  const sale = (linkId: string, amount: string, agoMs: number, buyer = '0xa') =>
    sell(f.db, { storeId, linkId, amount, atMs: f.clock.nowMs - agoMs, buyer })
  const seen = (linkId: string, agoMs: number, views: number, challenges: number) =>
    f.db.stats.addTraffic([
      {
        ...{ linkId, hour: Math.floor((f.clock.nowMs - agoMs) / HOUR_MS), views, challenges },
        ...{ calls: 0, failedCalls: 0 },
      },
    ])
  const series = (query = '') => f.call('GET', `/api/v1/stats/timeseries${query}`, { key })
  return { f, key, wallet, one, two, sale, seen, series }
}

const usd = (whole: number | string) => `${Number(whole).toFixed(1)}${'0'.repeat(17)}`

t.test(
  'a week is seven UTC days with today, each of them there, and the week before beside it',
  async (t) => {
    const { f, one, two, sale, seen, series } = await shop(t)
    await sale(one, '1', 0)
    await sale(two, '2', HOUR_MS, '0xb')
    await sale(one, '4', 6 * DAY_MS)
    await sale(one, '8', 6.6 * DAY_MS)
    await sale(one, '16', 13 * DAY_MS)
    await sale(one, '32', 14 * DAY_MS)
    await seen(one, 0, 3, 5)
    await seen(two, 6 * DAY_MS, 2, 2)
    await seen(two, 7 * DAY_MS, 7, 7)
    const { status, body } = await series('?period=7d')
    t.equal(status, 200)
    const { period, bucket, total, previous, points } = body.data
    t.same({ period, bucket }, { period: '7d', bucket: 'day' })
    const midnight = Math.floor(f.clock.nowMs / DAY_MS) * DAY_MS
    const iso = (ms: number) => new Date(ms).toISOString()
    t.same(
      points.map(({ at }: { at: string }) => at),
      Array.from({ length: 7 }, (_, i) => iso(midnight + (i - 6) * DAY_MS)),
    )
    const none = {
      views: 0,
      challenges: 0,
      purchases: 0,
      buyers: 0,
      revenue: usd(0),
      refunds: 0,
      refunded: usd(0),
    }
    t.same(points[6], {
      ...{ ...none, at: iso(midnight), views: 3, challenges: 5, purchases: 2, buyers: 2, revenue: usd(3) },
    })
    t.same(points[3], { ...none, at: iso(midnight - 3 * DAY_MS) })
    t.match(points[0], { views: 2, purchases: 1, revenue: usd(4) })
    t.same(total, {
      ...{ ...none, from: iso(midnight - 6 * DAY_MS), to: iso(midnight + DAY_MS) },
      ...{ views: 5, challenges: 7, purchases: 3, buyers: 2, revenue: usd(7), conversion: 42.86 },
    })
    t.same(previous, {
      ...{ ...none, from: iso(midnight - 13 * DAY_MS), to: iso(midnight - 6 * DAY_MS) },
      ...{ views: 7, challenges: 7, purchases: 2, buyers: 1, revenue: usd(24), conversion: 28.57 },
    })
    const ofTwo = (await series(`?period=7d&linkId=${two}`)).body.data
    t.match(ofTwo.total, { views: 2, purchases: 1, revenue: usd(2) })
    t.equal(ofTwo.points.length, 7)
  },
)

t.test('the figures of a period are the total of its days', async (t) => {
  const { f, key, one, two, sale, seen, series } = await shop(t)
  await sale(one, '1', 0)
  await sale(one, '4', 6 * DAY_MS, '0xb')
  await sale(two, '8', 7 * DAY_MS, '0xc')
  await sale(two, '16', 30 * DAY_MS, '0xd')
  await seen(one, 0, 3, 5)
  await seen(two, 7 * DAY_MS, 7, 7)
  for (const period of ['7d', '30d', '90d', 'all']) {
    const { views, buyers, revenue } = (await f.call('GET', `/api/v1/stats?period=${period}`, { key })).body
      .data
    const { total } = (await series(`?period=${period}`)).body.data
    t.same(
      { views, buyers, revenue },
      { views: total.views, buyers: total.buyers, revenue: total.revenue },
      period,
    )
  }
})

t.test('by the hour the present one is the last, and the buckets say what the total says', async (t) => {
  const { one, sale, seen, series } = await shop(t)
  for (const agoMs of [0, HOUR_MS / 2, HOUR_MS, 29 * DAY_MS]) await sale(one, '1', agoMs)
  await seen(one, 0, 1, 1)
  await seen(one, 31 * DAY_MS, 4, 4)
  const { total, previous, points } = (await series('?period=30d&bucket=hour')).body.data
  t.equal(points.length, 720)
  t.match(points.at(-1), { at: /T12:00:00/, purchases: 2, views: 1 })
  t.match(points.at(-2), { at: /T11:00:00/, purchases: 1, views: 0 })
  t.match(total, { purchases: 4, views: 1, conversion: 100 })
  t.match(previous, { purchases: 0, views: 4, conversion: 0 })
  for (const period of ['90d', 'all']) {
    const { error } = (await series(`?period=${period}&bucket=hour`)).body
    t.match(error, { code: 'VALIDATION_ERROR', message: /bucket: Expected day for/ })
  }
})

t.test('all of the time begins with the store, and has none before', async (t) => {
  const { one, sale, series } = await shop(t)
  await sale(one, '1', 0)
  const { total, previous, points } = (await series('?period=all')).body.data
  t.equal(points.length, 101)
  t.equal(previous, null)
  t.match(total, { purchases: 1, conversion: null })
  t.equal((await series()).body.data.points.length, 30, 'a month when nothing is said')
})

t.test('a day is told by the hour, beside the day before', async (t) => {
  const { f, series, one, sale } = await shop(t)
  await sale(one, '2', HOUR_MS)
  await sale(one, '3', 25 * HOUR_MS)
  const { total, previous, points } = (await series('?period=24h&bucket=hour')).body.data
  t.equal(points.length, 24)
  t.match(
    [total, previous],
    [
      { purchases: 1, revenue: /^2\.0/ },
      { purchases: 1, revenue: /^3\.0/ },
    ],
  )
  t.equal(Date.parse(total.to) - Date.parse(total.from), 24 * HOUR_MS)
  t.ok(Date.parse(total.to) > f.clock.nowMs)
})

t.test("what is no period, no bucket or another store's link is refused", async (t) => {
  const { f, one, series } = await shop(t)
  t.match((await series('?period=1d')).body.error, { code: 'VALIDATION_ERROR', message: /7d/ })
  t.match((await series('?bucket=minute')).body.error, { code: 'VALIDATION_ERROR', message: /hour/ })
  t.equal((await series('?linkId=x')).body.error.code, 'VALIDATION_ERROR')
  const other = await f.store()
  const foreign = `/api/v1/stats/timeseries?linkId=${one}`
  t.equal((await f.call('GET', foreign, { key: other.key })).body.error.code, 'LINK_NOT_FOUND')
  t.equal((await f.call('GET', '/api/v1/stats/timeseries')).status, 401)
})

t.test('a seller sees how each link does, in the list and beside the link', async (t) => {
  const { f, key, wallet, one, two, sale, series } = await shop(t)
  await sale(one, '1', 0)
  await sale(one, '2', 20 * DAY_MS, '0xb')
  await sale(one, '4', 40 * DAY_MS)
  await sale(two, '8', 0, wallet.address)
  await f.db.reviews.add({
    ...{ id: 'r', purchaseId: 'p', linkId: one, storeId: 's', wallet: '0xb' },
    ...{ isPositive: true, comment: null, createdAtMs: 0 },
  })
  const probe = {
    linkId: two,
    atMs: f.clock.nowMs,
    kind: 'probe',
    status: 200,
    latencyMs: 1,
    detail: '',
  } as const
  for (const ok of [true, true, false]) await f.db.links.addHealthEvent({ ...probe, ok })
  const { links } = (await f.call('GET', '/api/v1/links', { key })).body.data
  const statsOf = (id: string) => links.find((link: { id: string }) => link.id === id).stats
  t.same(statsOf(one), {
    purchases: 2,
    calls: 0,
    buyers: 2,
    revenue: usd(3),
    uptime: null,
    reviews: 1,
    rating: 100,
  })
  t.same(statsOf(two), {
    purchases: 0,
    calls: 0,
    buyers: 0,
    revenue: usd(0),
    uptime: 66.66,
    reviews: 0,
    rating: null,
  })
  for (const id of [one, two])
    t.same((await f.call('GET', `/api/v1/links/${id}`, { key })).body.data.stats, statsOf(id))
  t.equal((await series()).body.data.total.purchases, 2, 'the own wallet has bought nothing')
})

t.test('a call is one number for everyone: what the API answered, free or paid, on every page', async (t) => {
  const { f, key, one } = await shop(t)
  const hour = Math.floor(f.clock.nowMs / HOUR_MS)
  const free = { url: await f.seller(), title: 'Free', price: '0', isPublic: true }
  const { id, slug } = (await f.call('POST', '/api/v1/links', { key, body: free })).body.data
  await f.call('PATCH', `/api/v1/links/${one}`, { key, body: { isPublic: true } })
  await f.db.stats.addTraffic([
    { linkId: id, hour, views: 300, challenges: 0, calls: 800, failedCalls: 43 },
    { linkId: one, hour, views: 1, challenges: 2, calls: 3, failedCalls: 3 },
  ])
  const { username } = (await f.call('GET', '/api/v1/profile', { key })).body
  const { links } = (await f.call('GET', '/api/v1/links', { key })).body.data
  const statsOf = (linkId: string) => links.find((link: { id: string }) => link.id === linkId).stats
  t.match(statsOf(id), { calls: 757, purchases: 0 })
  t.match(statsOf(one), { calls: 0, purchases: 0 }, 'a failed call is no call')
  for (const path of ['/', `/${username}`, `/${username}/${slug}`]) {
    const { text } = await f.call('GET', path)
    t.match(text, /\b757 calls in 30 days/, path)
    t.notMatch(text, /\b(?:800|803|43) calls/, path)
  }
})
