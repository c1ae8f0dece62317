import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

const DAY_MS = 24 * 60 * 60_000
const buyer = '0x00000000000000000000000000000000000000B1'
const unknownId = '00000000-0000-4000-8000-000000000000'
const token = 'a-token-of-32-bytes-in-base64url-it-is'

/** A store with a link on sale, and buyers who come with the token of their paid answer. */
async function shop(t: Test, limits = {}) {
  const f = await startAdmin(t, { limits })
  const store = await f.store()
  const url = await f.seller()
  const create = async (more: object) => {
    const { body } = await f.call('POST', '/api/v1/links', {
      key: store.key,
      body: { url, title: 'One', ...more },
    })
    return body.data as { id: string; slug: string; privateSlug: string | null }
  }
  const link = await create({ isPublic: true })
  const buy = (of = link, from = buyer.toLowerCase(), ago = 0) =>
    sell(f.db, {
      ...{ storeId: store.id, linkId: of.id, amount: '0.1', atMs: f.clock.nowMs - ago },
      ...{ buyer: from, reviewToken: token },
    })
  const review = (purchaseId: string, more: object = {}, ip?: string) =>
    f.call('POST', '/api/reviews', {
      body: { purchaseId, wallet: buyer, token, positive: true, ...more },
      ...(ip !== undefined && { ip }),
    })
  const read = (query = '') => f.call('GET', `/api/reviews?username=${store.username}${query}`)
  return { f, store, link, create, buy, review, read }
}

t.test('a buyer reviews a purchase once; everybody reads it, with a shortened wallet', async (t) => {
  const { f, link, buy, review, read } = await shop(t)
  const response = await review(await buy(), { comment: 'Good, 世界 😀\nin time' })
  t.equal(response.status, 201)
  t.same(Object.keys(response.body), ['reviewId'])
  const { status, body, headers } = await read(`&slug=${link.slug}`)
  t.equal(status, 200)
  t.same(body, {
    reviews: [
      {
        id: response.body.reviewId,
        positive: true,
        comment: 'Good, 世界 😀\nin time',
        wallet: '0x0000…00b1',
        createdAt: new Date(f.clock.nowMs).toISOString(),
      },
    ],
    stats: { total: 1, positive: 1, negative: 0, rating: 100 },
  })
  t.equal(headers['access-control-allow-origin'], '*')
})

t.test('who may not review hears why', async (t) => {
  const { f, link, buy, review, read, store } = await shop(t)
  const id = await buy()
  const cases: [string, number, string, string, object][] = [
    ['an unknown purchase', 404, 'NOT_FOUND', unknownId, {}],
    ['an id that can be none', 404, 'NOT_FOUND', "' OR 1=1", {}],
    ['another token', 401, 'INVALID_REVIEW_TOKEN', id, { token: `${token}x` }],
    ['another wallet', 401, 'INVALID_REVIEW_TOKEN', id, { wallet: buyer.replace('B1', 'b2') }],
    ['no token', 400, 'VALIDATION_ERROR', id, { token: undefined }],
    ['no verdict', 400, 'VALIDATION_ERROR', id, { positive: undefined }],
    ['a verdict in words', 400, 'VALIDATION_ERROR', id, { positive: 'yes' }],
    ['a long comment', 400, 'VALIDATION_ERROR', id, { comment: 'x'.repeat(501) }],
    ['a comment that hides', 400, 'VALIDATION_ERROR', id, { comment: 'a\u202eb' }],
    ['a field too many', 400, 'VALIDATION_ERROR', id, { stars: 5 }],
    ['a token of 91 days', 401, 'INVALID_REVIEW_TOKEN', await buy(link, buyer, 91 * DAY_MS), {}],
  ]
  for (const [name, status, code, purchaseId, more] of cases) {
    const response = await review(purchaseId, more)
    t.equal(response.status, status, name)
    t.equal(response.body.error.code, code, name)
    if (status === 404) t.equal(response.body.error.message, 'No purchase has this id.', name)
  }
  const free = await sell(f.db, {
    storeId: store.id,
    linkId: link.id,
    amount: '0',
    atMs: f.clock.nowMs,
    buyer: buyer.toLowerCase(),
    reviewToken: token,
  })
  const unpaid = await review(free)
  t.equal(unpaid.status, 403, 'a call that was charged nothing')
  t.match(unpaid.body.error, { code: 'FORBIDDEN', message: /was charged 0/ })
  const own = await buy(link, store.wallet.address)
  const self = await review(own, { wallet: store.wallet.address })
  t.equal(self.status, 403)
  t.equal(self.body.error.code, 'FORBIDDEN', 'a store does not review itself')
  t.equal((await read()).body.stats.total, 0, 'nothing of it counts')

  t.equal((await review(id, { comment: 'x'.repeat(500) })).status, 201)
  const again = await review(id, { positive: false })
  t.equal(again.status, 409)
  t.equal(again.body.error.code, 'ALREADY_REVIEWED')
  t.equal((await review(await buy(link, buyer, 89 * DAY_MS))).status, 201)
  t.ok(f.logged.length === 0)
})

t.test('reviews of one purchase at once: one stands', async (t) => {
  const { buy, review, read } = await shop(t)
  const id = await buy()
  const responses = await Promise.all(Array.from({ length: 8 }, () => review(id)))
  t.same(responses.map(({ status }) => status).sort(), [201, ...Array(7).fill(409)])
  t.same((await read()).body.stats, { total: 1, positive: 1, negative: 0, rating: 100 })
})

t.test('stats are of all, the page of what was asked for; the rating is a percentage', async (t) => {
  const { f, link, create, buy, review, read } = await shop(t)
  const hidden = await create({ isStealth: true })
  const unlisted = await create({ title: 'Unlisted' })
  for (const positive of [true, true, false]) {
    f.clock.nowMs += 1_000
    await review(await buy(), { positive, comment: `${f.clock.nowMs}` })
  }
  for (const other of [hidden, unlisted]) await review(await buy(other))
  const ofLink = { total: 3, positive: 2, negative: 1, rating: 67 }
  const page = await read(`&slug=${link.slug}&limit=1&offset=1`)
  t.same(page.body.stats, ofLink)
  t.same(
    page.body.reviews.map((one: { comment: string }) => one.comment),
    [`${f.clock.nowMs - 1_000}`],
  )
  t.same((await read()).body.stats, ofLink, 'of a store: what it shows to everybody')
  t.equal((await read(`&slug=${hidden.privateSlug}`)).body.stats.total, 1)
  t.equal((await read(`&slug=${hidden.slug}`)).status, 404, 'a stealth link has one address')
  t.equal((await read(`&slug=${unlisted.slug}`)).body.stats.total, 1)
  const none = await read(`&slug=${(await create({ title: 'Unsold' })).slug}`)
  t.same(none.body, { reviews: [], stats: { total: 0, positive: 0, negative: 0, rating: null } })
})

t.test('a former name leads to the reviews; unknown ones are 404, wrong pages 400', async (t) => {
  const { f, store, link, buy, review, read } = await shop(t)
  await review(await buy())
  await f.call('PATCH', '/api/v1/profile', { key: store.key, body: { username: 'another_name' } })
  t.equal((await read()).body.stats.total, 1)
  t.equal((await read(`&slug=${link.slug}`)).body.stats.total, 1)
  for (const [query, status] of [
    ['username=nobody', 404],
    ['username=another_name&slug=nothing', 404],
    ['', 400],
    ['username=another_name&limit=101', 400],
    ['username=another_name&limit=0', 400],
    ['username=another_name&offset=-1', 400],
    ['username=another_name&offset=x', 400],
  ] as const)
    t.equal((await f.call('GET', `/api/reviews?${query}`)).status, status, query)
  t.equal((await f.call('PUT', '/api/reviews')).status, 405)
})

t.test('ten reviews an hour of one client', async (t) => {
  const { f, buy, review } = await shop(t, { reviewsPerHour: 10 })
  for (let i = 0; i < 10; i++) t.equal((await review(await buy())).status, 201)
  const refused = await review(await buy())
  t.equal(refused.status, 429)
  t.ok(Number(refused.headers['retry-after']) > 0)
  t.equal((await review(await buy(), {}, '203.0.113.2')).status, 201, 'another client')
  f.clock.nowMs += 60 * 60_000
  t.equal((await review(await buy())).status, 201)
})

const corpus = join(import.meta.dirname, '../../../shared/corpora/blns.json')

t.test('naughty strings are a comment, or a 400', { skip: !existsSync(corpus) && 'no corpus' }, async (t) => {
  const { f, buy, review, read } = await shop(t)
  let kept = 0
  for (const comment of JSON.parse(readFileSync(corpus, 'utf8')) as string[]) {
    const { status } = await review(await buy(), { comment })
    if (status === 201) kept++
    else if (status !== 400) t.fail(`${status} for ${JSON.stringify(comment)}`)
  }
  t.ok(kept > 100)
  t.equal((await read('&limit=100')).body.stats.total, kept)
  t.same(f.logged, [])
})
