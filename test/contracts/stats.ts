import fc from 'fast-check'
import type { Test } from 'tap'
import { entriesOfRefund } from '../../core/domain/ledger.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import type { HealthEvent, Links } from '../../core/ports/store/links.ts'
import type { Reviews } from '../../core/ports/store/reviews.ts'
import { DAY_MS, HOUR_MS, type Stats, type Traffic } from '../../core/ports/store/stats.ts'
import type { Stores } from '../../core/ports/store/stores.ts'
import {
  change,
  type LedgerUnderTest,
  type Sale,
  sampleKey,
  sampleLink,
  sampleStore,
  sell,
  startMs,
} from './samples.ts'

type Under = LedgerUnderTest & { stats: Stats; links: Links; stores: Stores; reviews: Reviews }

const always = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER }
const usd = 10n ** 18n
const totalsEndMs = Number.MAX_SAFE_INTEGER - 1
const today = Math.floor(startMs / DAY_MS) * DAY_MS

/** What every implementation of the port Figures keeps. */
export function statsContract(t: Test, make: (t: Test) => Promise<Under>): void {
  t.test('revenue adds up exactly, of purchases that stand', async (t) => {
    const under = await make(t)
    await buy(under, 'k1', { priceUsd: '0.1' })
    await buy(under, 'k2', { priceUsd: '0.2', buyerWallet: '0xb' })
    await buy(under, 'k3', { priceUsd: '0.000000000000000001', buyerWallet: '0xB' })
    await buy(under, 'k4', { priceUsd: '5', createdAtMs: startMs - 1 })
    await buy(under, 'k5', { priceUsd: '7', linkId: 'link-2', buyerWallet: '0xc' })
    await refund(under, await buy(under, 'k6', { priceUsd: '9', buyerWallet: '0xd' }), 'refund_due')
    const totals = (more = {}) => under.stats.totals('store-1', { ...always, fromMs: startMs, ...more })
    const none = { views: 0, challenges: 0, refunds: 0, refundedE18: 0n }
    const revenueE18 = 7_300_000_000_000_000_001n
    t.strictSame(await totals(), { ...none, purchases: 4, buyers: 3, revenueE18 })
    t.strictSame(await totals({ linkId: 'link-2' }), {
      ...none,
      purchases: 1,
      buyers: 1,
      revenueE18: 7n * usd,
    })
    t.strictSame(await totals({ fromMs: 0 }), {
      ...none,
      ...{ purchases: 5, buyers: 3, revenueE18: revenueE18 + 5n * usd },
    })
    t.equal((await totals({ fromMs: 0, toMs: startMs })).purchases, 1, 'the end does not belong to it')
    const others = await under.stats.totals('store-9', always)
    t.strictSame(others, { ...none, purchases: 0, buyers: 0, revenueE18: 0n })
    const foreign = await under.stats.totals('store-9', { ...always, linkId: 'link-1' })
    t.equal(foreign.purchases, 0, "another store's link is none of its")
  })

  t.test("buyers and revenue leave out the store's own wallets, and only these", async (t) => {
    const under = await make(t)
    const [signedIn, paidTo] = [`0x${'aB'.repeat(20)}`, `0x${'Cd'.repeat(20)}`]
    const solana = 'So1anaWa11et'
    const wallet = { storeId: 'store-1', chain: 'base', address: signedIn!.toLowerCase() } as const
    const store = sampleStore('store-1', { payout: { base: paidTo!, solana } })
    await under.stores.create(store, wallet, sampleKey('k', 'store-1'))
    const others = sampleStore('store-2', { payout: { base: '0xe', solana: null } })
    await under.stores.create(others, null, sampleKey('k2', 'store-2'))
    await under.links.create(sampleLink('link-1', 'store-1'))
    const solanaNetwork = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
    const evm: [string, NetworkId][] = [signedIn!, paidTo!, `0x${'CD'.repeat(20)}`, '0xe'].map((buyer) => [
      buyer,
      'eip155:84532',
    ])
    const sales = [...evm, [solana, solanaNetwork], [solana.toLowerCase(), solanaNetwork]] as const
    for (const [i, [buyerWallet, network]] of sales.entries())
      await buy(under, `own${i}`, { priceUsd: '1', buyerWallet, network })
    const theirs = { purchases: 2, buyers: 2, revenueE18: 2n * usd }
    t.match(await under.stats.totals('store-1', always), theirs)
    t.match(await under.stats.series('store-1', { ...always, bucketMs: DAY_MS }), [theirs])
    t.match(await under.stats.ofLinks('store-1', ['link-1'], 0), [theirs])
    await under.stores.update('store-1', { payout: { base: null, solana: null } }, startMs)
    t.match(await under.stats.totals('store-1', always), theirs, 'what was its own when it bought stays so')
    await buy(under, 'later', { priceUsd: '1', buyerWallet: paidTo! })
    t.match(
      await under.stats.totals('store-1', always),
      { purchases: 3, buyers: 3 },
      'and buys like others from then on',
    )
    await under.stores.update('store-1', { payout: { base: '0xe' } }, startMs)
    t.match(await under.stats.totals('store-1', always), { purchases: 3 }, 'who bought as a stranger did so')
    await refund(under, await buy(under, 'back', { priceUsd: '1', buyerWallet: signedIn! }), 'refunded')
    t.match(await under.stats.totals('store-1', always), { purchases: 3, refunds: 0 })
    const all = await under.purchases.page('store-1', { limit: 10 })
    t.equal(all.purchases.length, 8, 'they are sales all the same')
  })

  t.test('traffic adds up per link, hour and day, regardless of which process counted it', async (t) => {
    const under = await make(t)
    const { stats } = under
    await twoLinks(under)
    await stats.addTraffic([])
    await stats.addTraffic([
      seen('link-1', today, { views: 3, challenges: 30 }),
      seen('link-2', today, { views: 5 }),
      seen('link-1', today - HOUR_MS, { views: 7 }),
    ])
    const noon = today + 12 * HOUR_MS
    await Promise.all([1, 2].map(() => stats.addTraffic([seen('link-1', noon, { views: 2, challenges: 1 })])))
    const views = async (more: object) => {
      const { views, challenges } = await stats.totals('store-1', { ...always, ...more })
      return [views, challenges]
    }
    t.strictSame(await views({}), [19, 32])
    t.strictSame(await views({ fromMs: startMs }), [12, 32], 'the whole day belongs to it')
    t.strictSame(await views({ fromMs: today, linkId: 'link-1' }), [7, 32])
    t.strictSame(await views({ fromMs: today + DAY_MS }), [0, 0])
    t.strictSame(await views({ toMs: today }), [7, 0])
    t.equal((await stats.totals('store-2', always)).views, 0)
    const buckets = async (bucketMs: typeof HOUR_MS | typeof DAY_MS, more = {}) =>
      (await stats.series('store-1', { ...always, ...more, bucketMs })).map(({ startMs, views }) => [
        startMs - today,
        views,
      ])
    t.strictSame(await buckets(DAY_MS), [
      [-DAY_MS, 7],
      [0, 12],
    ])
    t.strictSame(await buckets(HOUR_MS), [
      [-HOUR_MS, 7],
      [0, 8],
      [12 * HOUR_MS, 4],
    ])
    t.strictSame(await buckets(HOUR_MS, { linkId: 'link-2', fromMs: today, toMs: noon }), [[0, 5]])
    const later = today + 63 * DAY_MS
    await stats.addTraffic([seen('link-1', later, { views: 1 })])
    t.equal((await buckets(HOUR_MS, { linkId: 'link-1' })).length, 1, 'hours are forgotten')
    t.equal((await buckets(DAY_MS, { linkId: 'link-1' })).length, 3, 'days are not')
  })

  t.test('the buckets of a series hold what the totals say, regardless of when sales happened', async (t) => {
    const sale = fc.record({
      atMs: fc.integer({ min: startMs, max: startMs + 5 * DAY_MS }),
      cents: fc.integer({ min: 1, max: 1_000 }),
      link: fc.constantFrom('link-1', 'link-2'),
      buyer: fc.constantFrom('0xa1', '0xA1', '0xb2'),
      isBack: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(sale, { maxLength: 8 }), async (sales) => {
        const under = await make(t)
        await twoLinks(under)
        for (const [i, { atMs, cents, link, buyer, isBack }] of sales.entries()) {
          const terms = { createdAtMs: atMs, linkId: link, buyerWallet: buyer }
          const sold = await buy(under, `k${i}`, { ...terms, priceUsd: (cents / 100).toFixed(2) })
          under.clock.nowMs = atMs + DAY_MS
          if (isBack) await refund(under, sold, 'refunded', `0xb${i}`)
        }
        for (const bucketMs of [HOUR_MS, DAY_MS] as const) {
          for (const linkId of [undefined, 'link-1', 'link-2']) {
            const span = { ...always, ...(linkId !== undefined && { linkId }) }
            const [totals, buckets] = await Promise.all([
              under.stats.totals('store-1', span),
              under.stats.series('store-1', { ...span, bucketMs }),
            ])
            for (const part of ['purchases', 'revenueE18', 'refunds', 'refundedE18'] as const)
              t.equal(
                buckets.reduce((sum, bucket) => sum + BigInt(bucket[part]), 0n),
                BigInt(totals[part]),
                part,
              )
            const starts = buckets.map(({ startMs }) => startMs)
            t.strictSame(starts, [...new Set(starts)].sort(), 'each once, the oldest first')
            t.ok(starts.every((at) => at % bucketMs === 0))
            const mine = sales.filter(({ link }) => linkId === undefined || link === linkId)
            t.equal(totals.refunds, mine.filter(({ isBack }) => isBack).length)
            const stand = mine.filter(({ isBack }) => !isBack)
            t.equal(totals.buyers, new Set(stand.map(({ buyer }) => buyer.toLowerCase())).size)
            // No whole hour ends there.
            t.strictSame(await under.stats.totals('store-1', { ...span, toMs: totalsEndMs }), totals)
          }
        }
      }),
      { numRuns: 5 },
    )
  })

  t.test('days and hours match their sales, even after these change state', async (t) => {
    const hop = fc.record({
      sale: fc.nat(5),
      to: fc.constantFrom('delivered', 'refund_due', 'refunded', 'reorged', 'settled' as const),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(hop, { maxLength: 12 }), fc.nat(11), async (hops, readAfter) => {
        const under = await make(t)
        await twoLinks(under)
        const sold: Sale[] = []
        for (let i = 0; i < 6; i++)
          sold.push(
            await buy(under, `k${i}`, {
              ...{ createdAtMs: startMs + i * 5 * HOUR_MS, linkId: i % 2 === 0 ? 'link-1' : 'link-2' },
              ...{ buyerWallet: `0xB${i % 3}`, priceUsd: `${i}.${'9'.repeat(18)}` },
            }),
          )
        const statuses: string[] = sold.map(() => 'settled')
        const backs: ({ readonly transaction: string; readonly atMs: number } | undefined)[] = []
        for (const [i, { sale, to }] of hops.entries()) {
          if (i === readAfter) await under.stats.totals('store-1', always)
          const { claim, row } = sold[sale]!
          const from = statuses[sale]! as 'settled'
          const back = backs[sale]
          if (from === (to as string) || (back !== undefined && to !== 'refund_due')) continue
          under.clock.nowMs += 7 * HOUR_MS
          const { network } = sold[sale]!.purchase
          const isDone = await under.ledger.apply(
            change(claim, row, from, to, {
              purchaseStatus: to,
              ...(to === 'refunded' && { refund: { network, transaction: `0xb${i}`, paymentKeys: [] } }),
              ...(back !== undefined && { lostRefund: { network, transaction: back.transaction } }),
            }),
          )
          t.ok(isDone)
          backs[sale] = to === 'refunded' ? { transaction: `0xb${i}`, atMs: under.clock.nowMs } : undefined
          statuses[sale] = to
        }
        const stand = sold.filter((_, i) => ['settled', 'delivered'].includes(statuses[i]!))
        const buyersOf = (list: typeof sold) => new Set(list.map(({ purchase }) => purchase.buyerWallet)).size
        for (const linkId of [undefined, 'link-1', 'link-2']) {
          const span = { ...always, ...(linkId !== undefined && { linkId }) }
          const mine = stand.filter(({ purchase }) => linkId === undefined || purchase.linkId === linkId)
          const totals = await under.stats.totals('store-1', span)
          t.match(totals, { purchases: mine.length, buyers: buyersOf(mine) })
          t.strictSame(await under.stats.totals('store-1', { ...span, toMs: totalsEndMs }), totals)
          for (const bucketMs of [HOUR_MS, DAY_MS] as const) {
            const buckets = await under.stats.series('store-1', { ...span, bucketMs })
            t.strictSame(
              await under.stats.series('store-1', { ...span, toMs: totalsEndMs, bucketMs }),
              buckets,
            )
            const days = Map.groupBy(mine, ({ purchase }) => Math.floor(purchase.createdAtMs / bucketMs))
            const refunded = sold.flatMap(({ purchase }, i) =>
              backs[i] === undefined || (linkId !== undefined && purchase.linkId !== linkId)
                ? []
                : [Math.floor(backs[i].atMs / bucketMs)],
            )
            for (const { startMs, purchases, buyers, refunds } of buckets) {
              const list = days.get(startMs / bucketMs) ?? []
              t.strictSame([purchases, buyers], [list.length, buyersOf(list)])
              t.equal(refunds, refunded.filter((at) => at === startMs / bucketMs).length)
            }
            t.equal(totals.refunds, refunded.length, 'a refund that left the chain is in no time')
          }
        }
        t.strictSame(
          (await under.purchases.ledgerCheck()).broken.filter((line) => /\bsums?\b/.test(line)),
          [],
        )
      }),
      { numRuns: 5 },
    )
  })

  t.test('what a seller sees beside the links is of each of them', async (t) => {
    const under = await make(t)
    await twoLinks(under)
    await under.links.create(sampleLink('link-3', 'store-1'))
    await under.links.create(sampleLink('other', 'store-2'))
    await buy(under, 'k1', { linkId: 'link-1', priceUsd: '1' })
    await buy(under, 'k2', { linkId: 'link-1', priceUsd: '2', buyerWallet: '0xb' })
    await buy(under, 'k3', { linkId: 'link-2', priceUsd: '4' })
    await buy(under, 'k4', { linkId: 'other', storeId: 'store-2', priceUsd: '8' })
    await under.reviews.add({
      ...{ id: 'r1', purchaseId: 'p1', linkId: 'link-1', storeId: 'store-1', wallet: '0xb' },
      ...{ isPositive: true, comment: null, createdAtMs: startMs },
    })
    await probe(under, 'link-2', startMs, true)
    await under.stats.addTraffic([seen('link-2', today, { calls: 10, failedCalls: 3 })])
    const ids = ['link-1', 'link-2', 'link-3', 'other', 'none']
    const found = await under.stats.ofLinks('store-1', ids, 0)
    const by = Object.fromEntries(found.map((one) => [one.linkId, one]))
    t.strictSame(Object.keys(by).sort(), ['link-1', 'link-2'], 'a link without any is left out')
    t.match(by['link-1'], {
      purchases: 2,
      buyers: 2,
      revenueE18: 3n * usd,
      reviews: { total: 1, positive: 1 },
    })
    t.match(by['link-2'], {
      ...{ purchases: 1, revenueE18: 4n * usd, reviews: { total: 0, positive: 0 } },
      health: { checks: { probes: 1, failedProbes: 0, calls: 10, failedCalls: 3 }, changes: { length: 0 } },
    })
    const later = await under.stats.ofLinks('store-1', ['link-2', 'link-1'], startMs + DAY_MS)
    t.match(later, { length: 1 })
    t.match(later[0], { linkId: 'link-1', purchases: 0, buyers: 0, revenueE18: 0n, reviews: { total: 1 } })
    t.strictSame(await under.stats.ofLinks('store-1', ['link-2'], startMs), [by['link-2']], 'its whole day')
    t.strictSame(await under.stats.ofLinks('store-2', ['link-2'], 0), [])
    t.strictSame(await under.stats.ofLinks('store-1', [], 0), [])
  })

  t.test("a link's health is counted by the day, and its suspensions are told", async (t) => {
    const under = await make(t)
    await twoLinks(under)
    await probe(under, 'link-1', today - 1, true)
    for (const ok of [true, false, true]) await probe(under, 'link-1', today + 5, ok)
    await probe(under, 'link-2', today, false)
    await probe(under, 'link-1', today + 6, true, { isRequestedBySeller: true })
    const hop = { linkId: 'link-1', ok: true, status: null, latencyMs: null, detail: '' } as const
    await under.links.addHealthEvent({ ...hop, atMs: today + 7, kind: 'suspended' })
    await under.links.addHealthEvent({ ...hop, atMs: today + 9, kind: 're-enabled' })
    await under.stats.addTraffic([
      seen('link-1', today + HOUR_MS, { calls: 4, failedCalls: 1 }),
      seen('link-1', today + 2 * HOUR_MS, { calls: -1, views: 9 }),
    ])
    const day = Math.floor(today / DAY_MS)
    const { days, changes } = await under.stats.healthDays('link-1', today - DAY_MS)
    t.strictSame(days, [
      { day: day - 1, probes: 1, failedProbes: 0, calls: 0, failedCalls: 0 },
      { day, probes: 3, failedProbes: 1, calls: 3, failedCalls: 1 },
    ])
    t.strictSame(changes, [
      { atMs: today + 7, kind: 'suspended' },
      { atMs: today + 9, kind: 're-enabled' },
    ])
    t.equal((await under.stats.healthDays('link-1', today)).days.length, 1)
    t.strictSame(await under.stats.healthDays('none', 0), { days: [], changes: [] })
    const both = await under.stats.healthOf(['none', 'link-1'], today - DAY_MS)
    t.strictSame([...both.keys()], ['link-1'])
    const checks = { probes: 4, failedProbes: 1, calls: 3, failedCalls: 1 }
    t.strictSame(both.get('link-1'), { checks, changes })
  })
}

async function twoLinks({ stores, links }: Under): Promise<void> {
  for (const id of ['store-1', 'store-2'])
    await stores.create(sampleStore(id), null, sampleKey(`k-${id}`, id))
  for (const id of ['link-1', 'link-2']) await links.create(sampleLink(id, 'store-1'))
}

const seen = (linkId: string, atMs: number, counts: Partial<Traffic>): Traffic => ({
  ...{ linkId, hour: Math.floor(atMs / HOUR_MS), views: 0, challenges: 0, calls: 0, failedCalls: 0 },
  ...counts,
})

const probe = (
  { links }: Under,
  linkId: string,
  atMs: number,
  ok: boolean,
  more: Partial<HealthEvent> = {},
) => links.addHealthEvent({ linkId, atMs, kind: 'probe', ok, status: 200, latencyMs: 1, detail: '', ...more })

const buy = (under: Under, name: string, more: Partial<Purchase>) =>
  sell(under, name, `0x${Buffer.from(name).toString('hex')}`, more)

async function refund(
  { ledger }: Under,
  { claim, row, purchase }: Awaited<ReturnType<typeof buy>>,
  to: 'refund_due' | 'refunded',
  transaction = '0xb',
): Promise<void> {
  const { network } = purchase
  await ledger.apply(
    change(claim, row, 'settled', to, {
      ...{ purchaseStatus: to, entries: entriesOfRefund(purchase) },
      ...(to === 'refunded' && { refund: { network, transaction, paymentKeys: [] } }),
    }),
  )
}
