import type { Test } from 'tap'
import type { Link } from '../../core/domain/link.ts'
import type { Links } from '../../core/ports/store/links.ts'
import type { Stores } from '../../core/ports/store/stores.ts'
import { sampleKey, sampleLink, sampleStore, startMs } from './samples.ts'

const DAY_MS = 24 * 60 * 60 * 1000

export interface LinksUnderTest {
  readonly links: Links
  readonly stores: Stores
}

/** What every implementation of the port Links keeps. */
export function linksContract(t: Test, make: (t: Test) => Promise<LinksUnderTest>): void {
  const twoStores = async (t: Test) => {
    const under = await make(t)
    await under.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
    await under.stores.create(sampleStore('s2', { username: 'ben' }), null, sampleKey('k2', 's2'))
    return under
  }

  t.test('a link comes back as it was created, with version 1', async (t) => {
    const { links } = await twoStores(t)
    const created = {
      ...sampleLink('l1', 's1', { upstreamHeadersSealed: 'v1.x', webhookUrl: 'https://hook.test/' }),
      ...{ suspension: null, version: 1 },
    }
    t.strictSame(await links.create(sampleLink('l1', 's1', created)), created)
    t.strictSame(await links.find('l1'), created)
    t.equal(await links.find('l2'), undefined)
    const bare = await links.create(
      sampleLink('l3', 's1', { inputSchema: null, outputExample: null, tags: [] }),
    )
    t.strictSame(await links.find('l3'), bare)
    t.match(bare, { inputSchema: null, outputExample: null })
  })

  t.test('the prices by request come back as they were stored, and can be removed again', async (t) => {
    const { links } = await twoStores(t)
    const pricing = {
      rules: [{ when: { path: ['/a', '/b/*'], body: { '/größe': 'L' } }, price: '0.05' }],
      otherwise: null,
    }
    const made = await links.create(sampleLink('l1', 's1', { price: '0.05', priceMax: '0.05', pricing }))
    t.strictSame((await links.find('l1'))?.pricing, pricing)
    t.match(await links.served('ann', made.slug), { price: '0.05', priceMax: '0.05', pricing })
    t.match((await links.listedOf('s1', { limit: 10 })).links, [{ price: '0.05', priceMax: '0.05' }])
    t.match(await links.update('l1', { title: 'x' }, startMs), { pricing, priceMax: '0.05' })
    const fixed = { price: '1', priceMax: null, pricing: null }
    t.match(await links.update('l1', fixed, startMs), fixed)
    t.match(await links.find('l1'), fixed)
  })

  t.test('two active links of a store never share a slug, however they come to it', async (t) => {
    const { links } = await twoStores(t)
    const taken = { code: 'SLUG_ALREADY_EXISTS' }
    const results = await Promise.allSettled(
      ['a', 'b', 'c'].map((id) => links.create(sampleLink(id, 's1', { slug: 'weather' }))),
    )
    t.equal(results.filter((r) => r.status === 'fulfilled').length, 1)
    await links.create(sampleLink('other', 's2', { slug: 'weather' }))
    await links.create(sampleLink('l2', 's1', { slug: 'news' }))
    await t.rejects(links.update('l2', { slug: 'weather' }, startMs), taken)
    t.match(await links.find('l2'), { slug: 'news', version: 1 })
    await links.deactivate('l2', startMs)
    await links.create(sampleLink('l3', 's1', { slug: 'news' }))
    await t.rejects(
      links.update('l2', { isActive: true }, startMs),
      taken,
      'the slug was free, and is taken again',
    )
  })

  t.test('one active link of a store is of an operation of a document, however many import it', async (t) => {
    const { links } = await twoStores(t)
    const origin = { document: 'pets', key: 'id:listPets', operation: 'GET /pets' }
    const results = await Promise.allSettled(
      ['a', 'b', 'c'].map((id) => links.create(sampleLink(id, 's1', { origin }))),
    )
    t.equal(results.filter((r) => r.status === 'fulfilled').length, 1)
    t.match(results.find((r) => r.status === 'rejected')?.reason, { code: 'CONFLICT' })
    const [made] = (await links.page('s1', { limit: 10 })).links
    t.strictSame(made!.origin, origin)
    await links.create(sampleLink('other', 's2', { origin }))
    await links.create(sampleLink('hand', 's1'))
    await t.rejects(links.update('hand', { origin }, startMs), { code: 'CONFLICT' })
    const moved = { ...origin, key: 'op:GET /pets' }
    t.match(await links.update('hand', { origin: moved, title: 'x' }, startMs), { origin: moved, title: 'x' })
    t.match(await links.update('hand', { title: 'y' }, startMs), { origin: moved, title: 'y' })
    t.match(await links.update('hand', { origin: null }, startMs), { origin: null })
    await links.deactivate(made!.id, startMs)
    await links.create(sampleLink('again', 's1', { origin }))
    t.strictSame((await links.served('ann', 'again'))?.origin, origin)
  })

  t.test('an update changes what it names, and raises the version', async (t) => {
    const { links } = await twoStores(t)
    const before = await links.create(sampleLink('l1', 's1'))
    const patch = {
      price: '0.25',
      webhookUrl: null,
      methods: [],
      inputSchema: null,
      tags: ['x'],
      isPublic: false,
    }
    const after = await links.update('l1', patch, startMs + 5)
    t.strictSame(after, { ...before, ...patch, updatedAtMs: startMs + 5, version: 2 })
    t.strictSame(await links.find('l1'), after)
    t.equal(await links.update('nobody', patch, startMs), undefined)
  })

  t.test('a deactivated link is kept, and cannot be called', async (t) => {
    const { links } = await twoStores(t)
    await links.create(sampleLink('l1', 's1'))
    t.equal(await links.deactivate('l1', startMs + 5), true)
    t.equal(await links.deactivate('l1', startMs + 6), false)
    t.match(await links.find('l1'), { isActive: false, version: 2, updatedAtMs: startMs + 5 })
    t.equal(await links.served('ann', 'l1'), undefined)
    t.strictSame(await links.page('s1', { limit: 10 }), { links: [], nextCursor: null })
    t.equal(await links.countOf('s1'), 0)
    t.strictSame(await links.allServed(), [])
  })

  t.test('a served link carries the name and the wallets of its store', async (t) => {
    const { links, stores } = await twoStores(t)
    const link = await links.create(sampleLink('l1', 's1'))
    const payout = { base: sampleStore('s1').payout.base, solana: null }
    t.strictSame(await links.served('ann', 'l1'), { ...link, username: 'ann', payout })
    t.strictSame(await links.allServed(), [{ ...link, username: 'ann', payout }])
    t.equal(await links.served('ben', 'l1'), undefined)
    t.equal(await links.served('ann', 'l2'), undefined)
    await stores.update('s1', { payout: { base: null, solana: 'So1' } }, startMs)
    t.match(await links.served('ann', 'l1'), { payout: { base: null, solana: 'So1' } })
  })

  t.test('a stealth link answers to its private slug only', async (t) => {
    const { links, stores } = await twoStores(t)
    await links.create(sampleLink('l1', 's1', { slug: 'weather', isStealth: true, privateSlug: 'x9' }))
    t.equal(await links.served('ann', 'weather'), undefined)
    t.match(await links.served('ann', 'x9'), { id: 'l1' })
    t.equal(await links.served('ben', 'x9'), undefined)

    await links.create(sampleLink('l2', 's1', { slug: 'open' }))
    await links.update('l2', { slug: 'open2' }, startMs)
    await links.update('l2', { isStealth: true, privateSlug: 'y9' }, startMs)
    t.equal(await links.redirectOf('ann', 'open', startMs), undefined, 'its former slug does not betray it')
    t.equal(await links.redirectOf('ann', 'open2', startMs), undefined)
    await stores.update('s1', { username: 'anna' }, startMs)
    t.strictSame(await links.redirectOf('ann', 'x9', startMs), { username: 'anna', slug: 'x9' })
    t.equal(await links.redirectOf('ann', 'weather', startMs), undefined)
  })

  t.test('a former slug, a former username and both lead on for 30 days', async (t) => {
    const { links, stores } = await twoStores(t)
    await links.create(sampleLink('l1', 's1', { slug: 'a' }))
    await links.update('l1', { slug: 'b' }, startMs)
    t.strictSame(await links.redirectOf('ann', 'a', startMs + 30 * DAY_MS - 1), {
      username: 'ann',
      slug: 'b',
    })
    t.equal(await links.redirectOf('ann', 'a', startMs + 30 * DAY_MS), undefined)
    t.equal(await links.redirectOf('ann', 'b', startMs), undefined, 'the present address needs none')
    t.equal(await links.redirectOf('ben', 'a', startMs), undefined)
    await stores.update('s1', { username: 'anna' }, startMs + DAY_MS)
    t.strictSame(await links.redirectOf('ann', 'b', startMs + 2 * DAY_MS), { username: 'anna', slug: 'b' })
    t.strictSame(await links.redirectOf('ann', 'a', startMs + 2 * DAY_MS), { username: 'anna', slug: 'b' })
    t.equal(await links.redirectOf('ann', 'b', startMs + 31 * DAY_MS), undefined)
    await links.update('l1', { slug: 'c' }, startMs + 2 * DAY_MS)
    t.strictSame(await links.redirectOf('anna', 'a', startMs + 2 * DAY_MS), { username: 'anna', slug: 'c' })
    await links.update('l1', { slug: 'a' }, startMs + 3 * DAY_MS)
    t.equal(await links.redirectOf('anna', 'a', startMs + 3 * DAY_MS), undefined)
    t.strictSame(await links.redirectOf('anna', 'c', startMs + 3 * DAY_MS), { username: 'anna', slug: 'a' })
    await links.deactivate('l1', startMs + 4 * DAY_MS)
    t.equal(await links.redirectOf('anna', 'c', startMs + 4 * DAY_MS), undefined, 'nothing to lead to')
  })

  t.test('a new link with a former slug takes the address over', async (t) => {
    const { links } = await twoStores(t)
    await links.create(sampleLink('l1', 's1', { slug: 'a' }))
    await links.update('l1', { slug: 'b' }, startMs)
    await links.create(sampleLink('l2', 's1', { slug: 'a' }))
    t.match(await links.served('ann', 'a'), { id: 'l2' })
    t.equal(await links.redirectOf('ann', 'a', startMs), undefined)
    await links.update('l2', { slug: 'c' }, startMs)
    t.strictSame(await links.redirectOf('ann', 'a', startMs), { username: 'ann', slug: 'c' })
  })

  t.test(
    'the last ten former slugs of a link lead on, and those of a deleted one are not kept',
    async (t) => {
      const { links } = await twoStores(t)
      await links.create(sampleLink('l1', 's1', { slug: 'slug-0' }))
      await links.create(sampleLink('l2', 's1', { slug: 'other-0' }))
      await links.update('l2', { slug: 'other-1' }, startMs)
      for (let i = 1; i <= 12; i++) await links.update('l1', { slug: `slug-${i}` }, startMs + i)
      const leads = async (slug: string) => (await links.redirectOf('ann', slug, startMs + 13))?.slug
      const former = Array.from({ length: 12 }, (_, i) => `slug-${i}`)
      t.strictSame(await Promise.all(former.map(leads)), [undefined, undefined, ...Array(10).fill('slug-12')])
      t.equal(await leads('other-0'), 'other-1', 'each link has its own')
      await links.deactivate('l1', startMs + 14)
      await links.update('l1', { isActive: true }, startMs + 15)
      t.equal(await leads('slug-11'), undefined)
      t.equal(await leads('other-0'), 'other-1')
    },
  )

  t.test('a store has so many active links at most, and deleted ones make room', async (t) => {
    const { links } = await twoStores(t)
    const create = (id: string, store = 's1') => links.create(sampleLink(id, store), 3)
    const results = await Promise.allSettled(['l1', 'l2', 'l3', 'l4', 'l5'].map((id) => create(id)))
    const refused = results.flatMap((r) => (r.status === 'rejected' ? [r.reason.code] : []))
    t.strictSame(refused, ['LIMIT_REACHED', 'LIMIT_REACHED'])
    const present = (await links.page('s1', { limit: 10 })).links
    t.equal(present.length, 3)
    t.equal(await links.countOf('s1'), 3)
    await create('other', 's2')
    await links.deactivate(present[0]!.id, startMs)
    await create('l6')
    await t.rejects(create('l7'), { code: 'LIMIT_REACHED' })
    await links.create(sampleLink('l8', 's1'))
  })

  t.test('strangers see the public links of a store that are not stealth, newest first', async (t) => {
    const { links } = await twoStores(t)
    const shown = (id: string, more: object) =>
      links.create(sampleLink(id, 's1', { isPublic: true, ...more }))
    const old = await shown('l1', { createdAtMs: startMs })
    const product = await shown('l2', { createdAtMs: startMs + 1, linkType: 'standard' })
    await shown('l3', { isPublic: false })
    await shown('l4', { isStealth: true, privateSlug: 'p' })
    await shown('l5', {})
    await links.deactivate('l5', startMs)
    await links.create(sampleLink('l6', 's2', { isPublic: true }))
    const view = ({ id, title, description, slug, price, priceMax, linkType }: Link) => ({
      id,
      title,
      description,
      slug,
      price,
      priceMax,
      linkType,
    })
    t.strictSame(await links.listedOf('s1', { limit: 2 }), {
      links: [view(product), view(old)],
      nextCursor: null,
    })
    const first = await links.listedOf('s1', { limit: 1 })
    t.strictSame(first.links, [view(product)], 'the newest')
    const second = await links.listedOf('s1', { limit: 1, cursor: first.nextCursor! })
    t.strictSame(second, { links: [view(old)], nextCursor: null })
    await t.rejects(links.listedOf('s1', { limit: 1, cursor: 'none' }), { code: 'VALIDATION_ERROR' })
  })

  t.test('an update of a version that is no more changes nothing', async (t) => {
    const { links } = await twoStores(t)
    const { version } = await links.create(sampleLink('l1', 's1', { slug: 'a' }))
    const results = await Promise.all(
      ['b', 'c', 'd'].map((slug) => links.update('l1', { slug }, startMs, version)),
    )
    const [winner, ...more] = results.filter((link) => link !== undefined)
    t.same(more, [])
    t.strictSame(await links.find('l1'), winner)
    for (const slug of ['b', 'c', 'd'].filter((slug) => slug !== winner!.slug)) {
      t.equal(await links.redirectOf('ann', slug, startMs), undefined)
    }
    t.strictSame(await links.redirectOf('ann', 'a', startMs), { username: 'ann', slug: winner!.slug })
  })

  t.test(
    "a store's links come newest first, page by page: each once, even if links are created and deleted meanwhile",
    async (t) => {
      const { links } = await twoStores(t)
      // Some of the same time, as an import makes them.
      const times = { a: 1, b: 2, c: 2, d: 2, e: 3, f: 4, g: 5 }
      for (const [id, at] of Object.entries(times))
        await links.create(sampleLink(id, 's1', { createdAtMs: startMs + at }))
      await links.create(sampleLink('other', 's2'))
      await links.deactivate('f', startMs + 9)
      const first = await links.page('s1', { limit: 2 })
      t.strictSame(first.links[0], await links.find('g'), 'a whole link')
      await links.create(sampleLink('late', 's1', { createdAtMs: startMs + 10 }))
      await links.deactivate('g', startMs + 11)
      const seen = first.links.map(({ id }) => id)
      for (let cursor = first.nextCursor; cursor !== null; ) {
        const page = await links.page('s1', { limit: 2, cursor })
        t.ok(page.links.length <= 2)
        seen.push(...page.links.map(({ id }) => id))
        cursor = page.nextCursor
      }
      t.strictSame(seen, ['g', 'e', 'd', 'c', 'b', 'a'])
      t.equal(
        (await links.page('s1', { limit: 6 })).nextCursor,
        null,
        'a full last page says that it is the last',
      )
      t.equal(await links.countOf('s1'), 6)
      await t.rejects(links.page('s1', { limit: 2, cursor: 'nonsense' }), { code: 'VALIDATION_ERROR' })
    },
  )

  t.test('links of a store are found by their state, their price and their words', async (t) => {
    const { links } = await twoStores(t)
    const suspension = { sinceMs: startMs, reason: 'down', cooldownUntilMs: startMs, permanent: false }
    const make = (id: string, more: object) =>
      links.create(sampleLink(id, 's1', { isPublic: false, tags: [], url: 'https://api.test/', ...more }))
    await make('a', { title: 'Größe der STRAẞE', isPublic: true, price: '0.000001' })
    await make('b', { title: 'Wetter', price: '0', tags: ['maps'], isPublic: true })
    await make('c', { title: 'خرائط', price: '0.00', isStealth: true, privateSlug: 'p' })
    await make('d', { title: '100% _off_', linkType: 'standard', url: 'https://Shop.test/maps?x=1' })
    await make('e', { isStealth: true, privateSlug: 'q', title: 'fi' })
    await links.setSuspension('e', suspension, startMs)
    await links.create(sampleLink('other', 's2', { title: 'Wetter' }))
    const found = async (query: object) =>
      (await links.page('s1', { limit: 10, ...query })).links
        .map(({ id }) => id)
        .sort()
        .join('')
    t.equal(await found({ state: 'public' }), 'ab')
    t.equal(await found({ state: 'unlisted' }), 'd')
    t.equal(await found({ state: 'stealth' }), 'c', 'only links that cannot be bought are suspended')
    t.equal(await found({ state: 'suspended' }), 'e')
    t.equal(await found({ isPaid: false }), 'bc')
    t.equal(await found({ isPaid: true, state: 'public' }), 'a')
    t.equal(await found({ words: ['GRÖSSE'] }), '', 'ß is not ss')
    t.equal(await found({ words: ['gRÖßE', 'der'] }), 'a')
    t.equal(await found({ words: ['der', 'wetter'] }), '', 'each word has to be there')
    t.equal(await found({ words: ['maps'] }), 'bd', 'in a tag, or in the url')
    t.equal(await found({ words: ['shop.test'] }), 'd')
    t.equal(await found({ words: ['خرا'] }), 'c')
    t.equal(await found({ words: ['%'] }), 'd', 'no sign stands for others')
    t.equal(await found({ words: ['_'] }), 'd')
    t.equal(await found({ words: ['ﬁ'] }), 'e', 'a ligature is its letters')
    t.equal(await found({ words: ['["'] }), '', 'what only the form of the record has is no word')
    const one = await links.page('s1', { limit: 1, words: ['maps'] })
    const next = await links.page('s1', { limit: 1, words: ['maps'], cursor: one.nextCursor! })
    t.strictSame(
      [...one.links, ...next.links].map(({ id }) => id),
      ['d', 'b'],
    )
    t.equal(next.nextCursor, null)
  })

  t.test('the links of a document and the titles of links are found without reading the rest', async (t) => {
    const { links } = await twoStores(t)
    const origin = { document: 'pets', key: 'id:listPets', operation: 'GET /pets' }
    const { title, slug, price } = await links.create(sampleLink('l1', 's1', { origin }))
    await links.create(sampleLink('l2', 's1', { origin: { ...origin, document: 'other' } }))
    await links.create(sampleLink('l3', 's2', { origin }))
    await links.create(sampleLink('l4', 's1', { title: 'gone', origin: { ...origin, key: 'id:gone' } }))
    await links.deactivate('l4', startMs)
    t.strictSame(await links.importedFrom('s1', 'pets'), [{ id: 'l1', title, slug, price, origin }])
    t.strictSame(
      await links.titlesOf(['l4', 'nobody', 'l1']),
      new Map([
        ['l4', 'gone'],
        ['l1', title],
      ]),
    )
    t.strictSame(await links.titlesOf([]), new Map())
    const both = ['l4', 'l1'].map(async (id) => [id, await links.find(id)] as const)
    t.strictSame(await links.findAll(['l4', 'nobody', 'l1']), new Map(await Promise.all(both)))
    t.strictSame(await links.findAll([]), new Map())
  })

  t.test('suspensions are counted when they begin, and raise the version', async (t) => {
    const { links } = await twoStores(t)
    await links.create(sampleLink('l1', 's1'))
    const suspension = {
      sinceMs: startMs,
      reason: '5 failures',
      cooldownUntilMs: startMs + 900_000,
      permanent: false,
    }
    await links.setSuspension('l1', suspension, startMs)
    t.match(await links.served('ann', 'l1'), { suspension, version: 2 })
    await links.setSuspension('l1', { ...suspension, permanent: true }, startMs + 10)
    t.equal(await links.suspensionCount('l1', 0), 1, 'still the same one')
    await links.setSuspension('l1', null, startMs + 20)
    t.match(await links.find('l1'), { suspension: null, version: 4, updatedAtMs: startMs + 20 })
    await links.setSuspension('l1', suspension, startMs + 30)
    t.equal(await links.suspensionCount('l1', 0), 2)
    t.equal(await links.suspensionCount('l1', startMs + 1), 1)
    t.equal(await links.suspensionCount('l2', 0), 0)
    await links.setSuspension('nobody', suspension, startMs)
  })

  t.test('the health timeline comes newest first, and forgets after 30 days', async (t) => {
    const { links } = await twoStores(t)
    await links.create(sampleLink('l1', 's1'))
    await links.create(sampleLink('l2', 's1'))
    const at = (atMs: number, more = {}) => ({
      ...{ linkId: 'l1', atMs, kind: 'probe' as const, ok: true, status: 200, latencyMs: 12, detail: 'ok' },
      ...more,
    })
    const silent = at(startMs + 1, { ok: false, status: null, latencyMs: null, detail: 'nobody answered' })
    for (const event of [at(startMs), silent, at(startMs + 2), at(startMs + 2, { kind: 'suspended' })]) {
      await links.addHealthEvent(event)
    }
    await links.addHealthEvent(at(startMs, { linkId: 'l2' }))
    t.strictSame(await links.healthEvents('l1', 3), [
      at(startMs + 2, { kind: 'suspended' }),
      at(startMs + 2),
      silent,
    ])
    await links.addHealthEvent(at(startMs + 40 * DAY_MS))
    t.strictSame(await links.healthEvents('l1', 10), [at(startMs + 40 * DAY_MS)])
    t.equal((await links.healthEvents('l2', 10)).length, 1)
  })
}
