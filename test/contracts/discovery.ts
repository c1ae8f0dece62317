import fc from 'fast-check'
import type { Test } from 'tap'
import type { Link } from '../../core/domain/link.ts'
import { type Discovery, type DiscoveryQuery, wordsOf } from '../../core/ports/store/discovery.ts'
import type { Links } from '../../core/ports/store/links.ts'
import type { Reviews } from '../../core/ports/store/reviews.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import type { Stores } from '../../core/ports/store/stores.ts'
import { asset, channelOf, chargeOf, hex } from './channelSamples.ts'
import { sampleReview } from './reviews.ts'
import { type LedgerUnderTest, sampleKey, sampleLink, sampleStore, sell, startMs } from './samples.ts'

const DAY_MS = 24 * 60 * 60 * 1000

export interface DiscoveryUnderTest extends LedgerUnderTest, Pick<DataStore, 'channels' | 'channelBooks'> {
  readonly discovery: Discovery
  readonly reviews: Reviews
  readonly links: Links
  readonly stores: Stores
}

/** What every implementation of the port Discovery keeps. */
export function discoveryContract(t: Test, make: (t: Test) => Promise<DiscoveryUnderTest>): void {
  const page = { sort: 'newest', limit: 20, offset: 0 } as const
  const plain = { title: 'Plain', description: '', tags: [] }

  const market = async (t: Test) => {
    const under = await make(t)
    const { stores, links, discovery } = under
    const payout = { base: '0x2222222222222222222222222222222222222222', solana: null }
    const ann = sampleStore('s1', { username: 'ann', displayName: 'Ann of Oslo', payout })
    await stores.create(ann, { storeId: 's1', chain: 'base', address: '0xabc' }, sampleKey('k1', 's1'))
    const ben = sampleStore('s2', { username: 'ben', payout: { base: null, solana: 'So1ana' } })
    await stores.create(ben, null, sampleKey('k2', 's2'))
    let atMs = startMs
    /** Each newer than the one before. */
    const add = (id: string, more: Partial<Link> = {}, storeId = 's1') =>
      links.create(sampleLink(id, storeId, { ...plain, createdAtMs: atMs++, ...more }))
    const ids = async (query: Partial<DiscoveryQuery> = {}) =>
      (await discovery.search({ ...page, ...query })).links.map(({ id }) => id)
    const find = (text: string, more: Partial<DiscoveryQuery> = {}) =>
      ids({ words: wordsOf(text), sort: 'relevance', ...more })
    const recount = async (nowMs = startMs) => {
      for (let i = 0; i < 9; i++) if ((await discovery.recount(nowMs)) === 0) return
      throw new Error('Expected that everything is counted after a while.')
    }
    let sold = 0
    const buy = (linkId: string, buyerWallet: string, atMs = startMs) =>
      sell(under, `n${++sold}`, `0x${sold}`, { linkId, storeId: 's1', buyerWallet, createdAtMs: atMs })
    return { ...under, add, ids, find, recount, buy }
  }

  t.test('what is listed is active, public, neither stealth nor suspended, at any time', async (t) => {
    const { add, ids, links } = await market(t)
    for (const id of ['a', 'b', 'c', 'd']) await add(id)
    await add('unlisted', { isPublic: false })
    await add('stealth', { isStealth: true, privateSlug: 'secret' })
    t.strictSame(await ids(), ['d', 'c', 'b', 'a'])
    await links.deactivate('a', startMs)
    await links.update('b', { isPublic: false }, startMs)
    const suspension = { sinceMs: startMs, reason: 'down', cooldownUntilMs: startMs, permanent: false }
    await links.setSuspension('c', suspension, startMs)
    await links.update('d', { isStealth: true, privateSlug: 'secret-2' }, startMs)
    t.strictSame(await ids(), [])
    await links.update('b', { isPublic: true }, startMs)
    await links.setSuspension('c', null, startMs)
    await links.update('unlisted', { isPublic: true }, startMs)
    t.strictSame(await ids(), ['unlisted', 'c', 'b'])
  })

  t.test('a link is found with what strangers may see of it, and nothing else', async (t) => {
    const { add, discovery, reviews, stores, buy, recount } = await market(t)
    const more = { methods: ['GET', 'POST'], tags: ['x', 'y'], createdAtMs: 7, upstreamHeadersSealed: 'v1.x' }
    await add('l1', { title: 'One', description: 'The first', price: '0.10', ...more })
    await stores.update('s1', { avatarUrl: 'https://pay.example/a.png' }, startMs)
    await buy('l1', '0xB1')
    await buy('l1', '0xb1')
    await reviews.add(sampleReview('r', 'l1'))
    await recount()
    t.strictSame(await discovery.search(page), {
      total: 1,
      links: [
        {
          id: 'l1',
          title: 'One',
          description: 'The first',
          slug: 'l1',
          price: '0.10',
          linkType: 'api',
          priceMax: null,
          access: null,
          ...{
            methods: ['GET', 'POST'],
            tags: ['x', 'y'],
            createdAtMs: 7,
            avatarUrl: 'https://pay.example/a.png',
          },
          username: 'ann',
          displayName: 'Ann of Oslo',
          buyers: 1,
          reviews: { total: 1, positive: 1 },
        },
      ],
    })
  })

  t.test('every filter leaves out what does not fit, and they add up', async (t) => {
    const { add, ids, reviews } = await market(t)
    await add('free', { price: '0', tags: ['free', 'weather'] })
    await add('cheap', { price: '0.1', tags: ['weather'] })
    await add('file', { price: '0.3', linkType: 'standard' })
    await add('dear', { price: '12.5', tags: ['weather-maps'] }, 's2')
    await reviews.add(sampleReview('r1', 'cheap'))
    await reviews.add(sampleReview('r2', 'dear', { isPositive: false }))
    await reviews.add(sampleReview('r3', 'dear', { storeId: 's2' }))
    const cases: [Partial<DiscoveryQuery>, string[]][] = [
      [{ linkType: 'standard' }, ['file']],
      [{ linkType: 'api' }, ['dear', 'cheap', 'free']],
      [{ minPrice: '0.3' }, ['dear', 'file']],
      [{ maxPrice: '0.3' }, ['file', 'cheap', 'free']],
      [{ minPrice: '0.1', maxPrice: '0.1' }, ['cheap']],
      [{ minPrice: '0.10000', maxPrice: '0.299999' }, ['cheap']],
      [{ minPrice: '999999999999999999999999999999' }, []],
      [{ isFree: true }, ['free']],
      [{ isFree: false }, ['dear', 'file', 'cheap']],
      [{ chain: 'base' }, ['file', 'cheap']],
      [{ chain: 'solana' }, ['dear']],
      [{ tag: 'weather' }, ['cheap', 'free']],
      [{ tag: 'weath' }, []],
      [{ username: 'ben' }, ['dear']],
      [{ username: 'nobody' }, []],
      [{ minRating: 0 }, ['dear', 'cheap']],
      [{ minRating: 50 }, ['dear', 'cheap']],
      [{ minRating: 51 }, ['cheap']],
      [{ tag: 'weather', isFree: false, chain: 'base', linkType: 'api' }, ['cheap']],
    ]
    for (const [query, expected] of cases) t.strictSame(await ids(query), expected, JSON.stringify(query))
  })

  t.test('filters follow what changes: price, tags, wallets, names', async (t) => {
    const { add, ids, find, links, stores } = await market(t)
    await add('a', { price: '1', tags: ['old'] })
    await links.update('a', { price: '2', tags: ['new'], title: 'Second' }, startMs)
    t.strictSame(await ids({ minPrice: '2', tag: 'new' }), ['a'])
    t.strictSame(await ids({ tag: 'old' }), [])
    t.strictSame(await find('plain'), [])
    t.strictSame(await find('second'), ['a'])
    await stores.update('s1', { username: 'anna', payout: { base: null, solana: 'So2' } }, startMs)
    t.strictSame(await ids({ chain: 'solana', username: 'anna' }), ['a'])
    t.strictSame(await ids({ chain: 'base' }), [])
    t.strictSame(await find('anna'), ['a'])
  })

  t.test('words are looked for in title, description, tags and seller; each begins a word', async (t) => {
    const { add, find } = await market(t)
    await add('title', { title: 'Météo of today' })
    await add('text', { description: 'How the weather (rain) will be: C++ "raw"' })
    await add('tags', { tags: ['rain-maps'] })
    await add('ben', { title: '天気 予報' }, 's2')
    const cases: [string, string[]][] = [
      ['meteo', ['title']],
      ['MÉTÉO today', ['title']],
      ['weath', ['text']],
      ['eather', []],
      ['rain', ['tags', 'text']],
      ['rain weather', ['text']],
      ['maps', ['tags']],
      ['oslo', ['tags', 'text', 'title']],
      ['天気', ['ben']],
      ['BEN', ['ben']],
      ['rain snow', []],
      ['(rain)', ['tags', 'text']],
    ]
    for (const [text, expected] of cases) t.strictSame((await find(text)).sort(), expected.sort(), text)
    t.strictSame(await find('rain', { tag: 'rain-maps' }), ['tags'])
    t.strictSame(await find('!!! ---'), [], 'words that are none find nothing')
  })

  t.test('what fits better comes first, and other orders may be asked for', async (t) => {
    const { add, find } = await market(t)
    await add('named', { title: 'Weather', price: '3' })
    await add('other', {
      title: 'News',
      description: 'Politics, sport, the weather and much more',
      price: '1',
    })
    t.strictSame(await find('weather'), ['named', 'other'])
    t.strictSame(await find('weather', { sort: 'newest' }), ['other', 'named'])
    t.strictSame(await find('weather', { sort: 'price_asc' }), ['other', 'named'])
    t.strictSame(await find('weather', { sort: 'price_desc' }), ['named', 'other'])
  })

  t.test(
    'pages together give every link once, in each order; of equal ones the newest is first',
    async (t) => {
      const { add, ids, discovery } = await market(t)
      for (let i = 0; i < 12; i++)
        await add(`l${String(i).padStart(2, '0')}`, { price: `${[2, 10, 0.5][i % 3]}` })
      for (const sort of ['newest', 'popular', 'price_asc', 'price_desc'] as const) {
        const seen: string[] = []
        for (let offset = 0; offset < 12; offset += 5) seen.push(...(await ids({ sort, limit: 5, offset })))
        t.equal(new Set(seen).size, 12, sort)
        t.strictSame(seen, await ids({ sort }), sort)
        t.match(await discovery.search({ sort, limit: 1, offset: 99 }), { links: { length: 0 }, total: 12 })
      }
      t.strictSame((await ids({ sort: 'price_asc' })).slice(0, 5), ['l11', 'l08', 'l05', 'l02', 'l09'])
      t.strictSame((await ids({ sort: 'price_desc' })).slice(0, 5), ['l10', 'l07', 'l04', 'l01', 'l09'])
    },
  )

  t.test('popular is what many bought lately, that works, and that they liked', async (t) => {
    const { add, ids, buy, recount, reviews, links } = await market(t)
    for (const id of ['few', 'many', 'old', 'own', 'none']) await add(id)
    for (const buyer of ['0x1', '0x2', '0x3']) await buy('many', buyer)
    for (let i = 0; i < 9; i++) await buy('few', '0x1')
    for (let i = 0; i < 9; i++)
      await buy('own', i % 2 === 0 ? '0xABC' : '0x2222222222222222222222222222222222222222')
    for (let i = 0; i < 9; i++) await buy('old', `0x${i}`, startMs - 31 * DAY_MS)
    await recount()
    t.strictSame(await ids({ sort: 'popular' }), ['many', 'few', 'none', 'own', 'old'])
    for (let i = 0; i < 5; i++) await reviews.add(sampleReview(`bad${i}`, 'many', { isPositive: false }))
    for (let i = 0; i < 9; i++) await reviews.add(sampleReview(`good${i}`, 'few'))
    for (const atMs of [1, 2, 3])
      await links.addHealthEvent({
        linkId: 'many',
        atMs: startMs - atMs,
        kind: 'probe',
        ok: atMs === 1,
        status: 500,
        latencyMs: 1,
        detail: '',
      })
    await recount()
    t.strictSame((await ids({ sort: 'popular' })).slice(0, 2), ['few', 'many'])
    await recount(startMs + 32 * DAY_MS)
    t.strictSame(await ids({ sort: 'popular' }), ['none', 'own', 'old', 'many', 'few'], 'a month later')
  })

  t.test(
    'calls by channels make a link popular, and a wallet that pays in both ways is one buyer',
    async (t) => {
      const under = await market(t)
      const { add, ids, buy, recount, discovery } = under
      for (const id of ['channels', 'both', 'own', 'none']) await add(id)
      const wallet = (byte: string) => hex(byte, 20)
      /** A call by the channel of a wallet, which is then booked. */
      const call = async (linkId: string, byte: string) => {
        const id = hex(byte, 32)
        const { config } = channelOf(byte)
        await under.channels.open(
          channelOf(byte, { storeId: 's1', config: { ...config, payer: wallet(byte) } }),
          1,
        )
        const taken = await under.channels.take(id, 1)
        if (taken === undefined || 'ownedBy' in taken) throw new Error('Expected to own the channel.')
        await under.channels.charge(chargeOf(byte, taken.channel.charged, { linkId, storeId: 's1' }))
        await under.channelBooks.book([asset], 10)
      }
      for (const byte of ['a1', 'a2', 'a3']) await call('channels', byte)
      await call('both', 'b1')
      await call('both', 'b1')
      await buy('both', wallet('B1'))
      await buy('both', wallet('b2'))
      await call('own', '22')
      await recount()
      t.strictSame(await ids({ sort: 'popular' }), ['channels', 'both', 'none', 'own'])
      const { links } = await discovery.search({ ...page, sort: 'popular' })
      t.strictSame(
        links.map(({ id, buyers }) => [id, buyers]),
        [
          ['channels', 3],
          ['both', 2],
          ['none', 0],
          ['own', 0],
        ],
      )
      await call('none', 'c1')
      await recount()
      t.match(await ids({ sort: 'popular' }), ['channels', 'both', 'none', 'own'])
      t.equal((await discovery.search(page)).links.find(({ id }) => id === 'none')?.buyers, 1)
    },
  )

  t.test('a call that was charged 0 makes no link popular', async (t) => {
    const under = await market(t)
    await under.add('free')
    await under.add('paid')
    for (const n of [1, 2, 3]) {
      const sale = { linkId: 'free', storeId: 's1', buyerWallet: `0x${n}`, amountAtomic: 0n, feeAtomic: 0n }
      await sell(under, `free${n}`, `0xf${n}`, { ...sale, priceUsd: '0' })
    }
    await under.buy('paid', '0x1')
    await under.add('newest')
    await under.recount()
    t.strictSame(await under.ids({ sort: 'popular' }), ['paid', 'newest', 'free'])
    const { links } = await under.discovery.search(page)
    t.strictSame(
      links.map(({ buyers }) => buyers),
      [0, 1, 0],
    )
  })

  t.test('popularity halves in a week without a sale', async (t) => {
    const { add, ids, buy, recount } = await market(t)
    for (const id of ['now', 'then']) await add(id)
    // ln 2 = 0.69; eight days ago ln 4 is worth 0.63 and ln 7 is worth 0.88.
    await buy('now', '0x1')
    for (const buyer of ['0x1', '0x2', '0x3']) await buy('then', buyer, startMs - 8 * DAY_MS)
    await recount()
    t.strictSame(await ids({ sort: 'popular' }), ['now', 'then'])
    for (const buyer of ['0x4', '0x5', '0x6']) await buy('then', buyer, startMs - 8 * DAY_MS)
    await recount()
    t.strictSame(await ids({ sort: 'popular' }), ['then', 'now'])
  })

  t.test('no text is a query of its own: it finds something or nothing, and never fails', async (t) => {
    const { add, discovery } = await market(t)
    await add('a', { title: 'Anything at all' })
    const operators = [
      '"',
      "'",
      '*',
      '^',
      '(',
      ')',
      'AND',
      'OR',
      'NOT',
      'NEAR(',
      ':',
      '+',
      '-',
      '{',
      'title:',
      '\0',
    ]
    const piece = fc.oneof(fc.constantFrom(...operators), fc.string({ unit: 'binary' }), fc.string())
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 8 }), async (pieces) => {
        const words = wordsOf(pieces.join(' '))
        const { total } = await discovery.search({ ...page, words, sort: 'relevance' })
        return total === 0 || total === 1
      }),
      { numRuns: 300 },
    )
  })
}
