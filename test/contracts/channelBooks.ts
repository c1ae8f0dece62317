import type { Test } from 'tap'
import type { ChannelCharge } from '../../core/ports/store/channels.ts'
import { DAY_MS, HOUR_MS } from '../../core/ports/store/stats.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import { asset, channelOf, chargeOf, hex, network, token } from './channelSamples.ts'
import { type LedgerUnderTest, sampleLink, sampleStore, sell, startMs, type TestClock } from './samples.ts'
import { endpoint } from './webhooks/webhookSamples.ts'

type Under = Omit<LedgerUnderTest, 'ledger'> &
  Pick<
    DataStore,
    'channels' | 'channelBooks' | 'stats' | 'fees' | 'webhooks' | 'stores' | 'links' | 'ledger' | 'purchases'
  > & { readonly clock: TestClock }
type Make = (t: Test) => Promise<Under>

/** Charges a channel this often, after what it was charged. */
async function charge(under: Under, byte: string, times: number, more: Partial<ChannelCharge> = {}) {
  for (let n = 0; n < times; n++) {
    const taken = await under.channels.take(hex(byte, 32), 1)
    if (taken === undefined || 'ownedBy' in taken) throw new Error('Expected to own the channel.')
    await under.channels.charge(chargeOf(byte, taken.channel.charged, more))
  }
}

const bookAll = async ({ channelBooks }: Under) => {
  while ((await channelBooks.book([asset], 2)) > 0);
}

const day = {
  fromMs: Math.floor(startMs / DAY_MS) * DAY_MS,
  toMs: (Math.floor(startMs / DAY_MS) + 1) * DAY_MS,
}

/** What every database promises about the ledger of payment channels. */
export async function channelBooksContract(t: Test, make: Make): Promise<void> {
  const makeStore = async (t: Test) => {
    const under = await make(t)
    await under.stores.create(sampleStore('store-1'), null, null)
    for (const id of ['link-1', 'link-2'])
      await under.links.create(sampleLink(id, 'store-1', { webhookUrl: null }), 100)
    for (const byte of ['ab', 'cd']) await under.channels.open(channelOf(byte), 1)
    return under
  }

  t.test('a charged call is revenue once, and a deposit is none', async (t) => {
    const under = await makeStore(t)
    const { stats, channelBooks, channels } = under
    t.match(await stats.totals('store-1', day), { purchases: 0, revenueE18: 0n })
    await charge(under, 'ab', 3)
    await charge(under, 'ab', 1, { linkId: 'link-2' })
    await charge(under, 'cd', 1)
    t.match(
      await channels.earnings('store-1'),
      [{ calls: 5, chargedAtomic: 50_000n }],
      'also before it is booked',
    )
    await bookAll(under)
    t.equal(await channelBooks.book([asset], 10), 0)
    await charge(under, 'ab', 1)
    await bookAll(under)
    const sold = { purchases: 6, buyers: 2, revenueE18: 60_000n * 10n ** 12n, refunds: 0 }
    t.match(await stats.totals('store-1', day), sold)
    t.match(await stats.series('store-1', { ...day, bucketMs: HOUR_MS }), [{ startMs, ...sold }])
    t.match(await stats.totals('store-1', { ...day, linkId: 'link-1' }), { purchases: 5, buyers: 2 })
    t.match(await stats.totals('store-1', { ...day, fromMs: startMs + 1 }), sold, 'a part of an hour')
    const hours = { ...day, linkId: 'link-2', bucketMs: HOUR_MS } as const
    t.match(await stats.series('store-1', hours), [{ startMs, purchases: 1, buyers: 1 }])
    t.match(await stats.ofLinks('store-1', ['link-1', 'link-2'], day.fromMs), [
      { linkId: 'link-1', purchases: 5 },
      { linkId: 'link-2', purchases: 1 },
    ])
    t.match(await channels.earnings('store-1'), [{ calls: 6, chargedAtomic: 60_000n, claimedAtomic: 0n }])
    t.same(await channelBooks.wrongTotals(), [])
    t.strictSame((await under.purchases.ledgerCheck()).broken, [])
  })

  t.test('a wallet that pays by channel and by transfer is one buyer', async (t) => {
    const under = await makeStore(t)
    const buyerWallet = `0x${'AB'.repeat(20)}`
    await charge(under, 'ab', 1)
    await bookAll(under)
    await sell(under, 'k1', '0x01', { buyerWallet, createdAtMs: startMs })
    await sell(under, 'k2', '0x02', { buyerWallet: hex('ee', 20), createdAtMs: startMs })
    await charge(under, 'cd', 1)
    await bookAll(under)
    t.match(await under.stats.totals('store-1', day), { purchases: 4, buyers: 3 })
    t.strictSame((await under.purchases.ledgerCheck()).broken, [])
  })

  t.test("calls paid by the store's own wallet are in the ledger and not in the statistics", async (t) => {
    const under = await makeStore(t)
    const own = channelOf('ef')
    await under.channels.open({ ...own, config: { ...own.config, payer: hex('22', 20) } }, 1)
    await charge(under, 'ef', 2)
    await bookAll(under)
    t.match(await under.stats.totals('store-1', day), { purchases: 0, buyers: 0, revenueE18: 0n })
    t.match(await under.channels.earnings('store-1'), [{ calls: 2, chargedAtomic: 20_000n }])
  })

  t.test('calls that are charged while others are booked are booked once', async (t) => {
    const under = await makeStore(t)
    const bytes = ['ab', 'cd', 'a1', 'a2', 'a3', 'a4']
    for (const byte of bytes) await under.channels.open(channelOf(byte), 1)
    let isOver = false
    const booking = [1, 2].map(async () => {
      while (!isOver) await under.channelBooks.book([asset], 3)
    })
    await Promise.all(bytes.map((byte) => charge(under, byte, 15)))
    isOver = true
    await Promise.all(booking)
    await bookAll(under)
    t.match(await under.stats.totals('store-1', day), { purchases: 90, revenueE18: 900_000n * 10n ** 12n })
    for (const { channel, summedAtomic } of await under.channelBooks.audit(null, 10))
      t.equal(summedAtomic, channel.charged)
    t.same(await under.channelBooks.wrongTotals(), [])
  })

  t.test('a fee is owed on what was claimed, and taken back with a claim that left the chain', async (t) => {
    const under = await makeStore(t)
    const { channels, fees } = under
    await charge(under, 'ab', 4)
    await bookAll(under)
    t.same(await fees.months('store-1'), [], 'nothing is owed on unclaimed money')
    const state = channelOf('ab', { totalClaimed: 30_000n })
    await channels.update(state.id, state)
    await bookAll(under)
    const month = { month: '2026-06', network, symbol: 'USDC', decimals: 6, asset: asset.address }
    t.match(await fees.months('store-1'), [
      { ...month, sales: 1, salesAtomic: 30_000n, feesAtomic: 1_500n, paidAtomic: 0n },
    ])
    t.match(await under.channelBooks.debts('store-1'), [
      { channels: 1, unclaimedAtomic: 10_000n, writtenOffAtomic: 0n },
    ])
    await channels.update(state.id, { ...state, totalClaimed: 0n })
    await bookAll(under)
    t.match(await fees.months('store-1'), [{ sales: 0, salesAtomic: 0n, feesAtomic: 0n }])
    await channels.update(state.id, { ...state, totalClaimed: 40_000n })
    await bookAll(under)
    t.match(await fees.months('store-1'), [{ sales: 1, salesAtomic: 40_000n, feesAtomic: 2_000n }])
    t.same(await under.channelBooks.debts(), [])
    t.same(await under.channelBooks.wrongTotals(), [])
  })

  t.test('fees are those of the sum of the claims, also after a claim has left the chain', async (t) => {
    const under = await makeStore(t)
    const { channels, fees } = under
    const claimed = async (byte: string, totalClaimed: bigint) => {
      await channels.update(hex(byte, 32), channelOf(byte, { totalClaimed }))
      await bookAll(under)
    }
    const feesOf = async () => (await fees.months('store-1'))[0]!.feesAtomic
    await charge(under, 'ab', 1, { amountAtomic: 100n })
    await charge(under, 'cd', 1, { amountAtomic: 100n })
    for (const total of [19n, 38n, 57n]) await claimed('ab', total)
    t.equal(await feesOf(), 2n, '5 % of 57')
    await claimed('cd', 13n)
    t.equal(await feesOf(), 3n, '5 % of 70')
    await claimed('ab', 19n)
    t.equal(await feesOf(), 1n, '5 % of 32')
    await claimed('ab', 0n)
    await claimed('cd', 0n)
    t.equal(await feesOf(), 0n)
    await claimed('cd', 100n)
    t.equal(await feesOf(), 5n)
  })

  t.test('what a withdrawal has left without balance is written off', async (t) => {
    const under = await makeStore(t)
    await charge(under, 'ab', 4)
    await bookAll(under)
    await under.channels.update(
      channelOf('ab').id,
      channelOf('ab', { balance: 15_000n, totalClaimed: 10_000n }),
    )
    t.match(await under.channelBooks.debts('store-1'), [
      { unclaimedAtomic: 5_000n, writtenOffAtomic: 25_000n },
    ])
    t.same(await under.channelBooks.debts('store-2'), [])
  })

  t.test('what is claimed and not paid out is known by wallet, until it is paid out', async (t) => {
    const under = await makeStore(t)
    const { channels, channelBooks } = under
    const payout = { storeId: 'store-1', receiver: hex('33', 20), token, dueAtomic: 30_000n }
    const shared = { ...payout, storeId: 'store-2' }
    const other = { ...payout, receiver: hex('34', 20), dueAtomic: 2n ** 100n }
    await channels.notePayouts(network, [payout, shared, other])
    await channels.notePayouts('eip155:1', [payout])
    const sortedOf = async () =>
      (await channels.payouts(network)).toSorted((a, b) =>
        a.storeId + a.receiver < b.storeId + b.receiver ? -1 : 1,
      )
    t.same(await sortedOf(), [payout, other, shared])
    const here = { network, token }
    t.same(await channelBooks.payoutsDue('store-2'), [{ ...here, dueAtomic: 30_000n }])
    const bySum = (await channelBooks.payoutsDue()).filter((one) => one.network === network)
    t.same(bySum, [{ ...here, dueAtomic: 2n ** 100n + 30_000n }], 'a wallet of two stores counts once')
    await channels.notePayouts(network, [
      { ...payout, dueAtomic: 0n },
      { ...shared, dueAtomic: 1n },
    ])
    t.same(await sortedOf(), [other, { ...shared, dueAtomic: 1n }])
    await channels.notePayouts(network, [])
    t.same(await channelBooks.payoutsDue('store-3'), [])
  })

  t.test(
    'money that was claimed before is no revenue, and calls that a restored database lacks are',
    async (t) => {
      const under = await makeStore(t)
      const known = channelOf('ee', { charged: 50_000n, totalClaimed: 50_000n })
      await under.channels.open(known, 1)
      await charge(under, 'ee', 1)
      await under.channels.update(known.id, { ...known, totalClaimed: 90_000n })
      await bookAll(under)
      t.match(await under.channels.earnings('store-1'), [
        { calls: 1, chargedAtomic: 40_000n, claimedAtomic: 40_000n },
      ])
      t.match(await under.stats.totals('store-1', day), { purchases: 1, revenueE18: 40_000n * 10n ** 12n })
      const audited = await under.channelBooks.audit(hex('cd', 32), 10)
      t.match(audited, [{ channel: { charged: 90_000n }, baseAtomic: 50_000n, summedAtomic: 40_000n }])
      t.same(await under.channelBooks.wrongTotals(), [])
    },
  )

  t.test('a webhook is told the sum of a minute once, when the minute is over', async (t) => {
    const under = await makeStore(t)
    const { webhooks, channelBooks, clock } = under
    const kinds = ['channel.charged'] as const
    await charge(under, 'ab', 1)
    await bookAll(under)
    await webhooks.create(endpoint('all', { kinds }), 10)
    await charge(under, 'ab', 2)
    await bookAll(under)
    await charge(under, 'ab', 1)
    await charge(under, 'ab', 1, { linkId: 'link-2' })
    await bookAll(under)
    t.equal(await channelBooks.addEvents([asset], 10), 0, 'the minute is not over')
    clock.nowMs += 60_000
    t.equal(await channelBooks.addEvents([asset], 10), 2)
    t.equal(await channelBooks.addEvents([asset], 10), 0)
    const events = await webhooks.awaitingFanOut(10)
    const expected = { kind: 'channel.charged', storeId: 'store-1', atMs: startMs + 60_000 }
    t.equal(events.length, 1)
    t.match(events, [{ ...expected, linkId: null }])
    t.match(JSON.parse(events[0]!.detail!), {
      channelId: hex('ab', 32),
      calls: 4,
      amount: '0.04',
      links: [
        { linkId: 'link-1', calls: 3, amount: '0.03' },
        { linkId: 'link-2', calls: 1, amount: '0.01' },
      ],
      currency: 'USDC',
      network,
      fromMs: startMs,
    })
  })

  t.test('a webhook is told of every link of a minute that has more links than a page', async (t) => {
    const under = await makeStore(t)
    const { webhooks, channelBooks, clock } = under
    await webhooks.create(endpoint('all', { kinds: ['channel.charged'] }), 10)
    for (const linkId of ['link-1', 'link-2', 'link-3']) await charge(under, 'ab', 1, { linkId })
    await charge(under, 'cd', 1)
    await bookAll(under)
    clock.nowMs += 60_000
    while ((await channelBooks.addEvents([asset], 2)) >= 2);
    const events = await webhooks.awaitingFanOut(10)
    const details = events.map(({ detail }) => JSON.parse(detail!))
    t.equal(
      details.reduce((sum, { calls }) => sum + calls, 0),
      4,
    )
    t.strictSame(
      details.flatMap(({ links }) => links.map((link: { linkId: string }) => link.linkId)),
      ['link-1', 'link-2', 'link-3', 'link-1'],
    )
  })

  t.test('channels in a token that is not configured wait, and are booked when it is', async (t) => {
    const under = await makeStore(t)
    await charge(under, 'ab', 1)
    t.equal(await under.channelBooks.book([], 10), 0)
    await bookAll(under)
    t.match(await under.stats.totals('store-1', day), { purchases: 1 })
  })

  t.test('a store reads its channels newest first, page by page', async (t) => {
    const under = await makeStore(t)
    under.clock.nowMs += 1_000
    await under.channels.open(channelOf('ff'), 1)
    await under.channels.open(channelOf('fe', { storeId: 'store-2' }), 1)
    await charge(under, 'ff', 2)
    await bookAll(under)
    await charge(under, 'ff', 1)
    const first = await under.channelBooks.page('store-1', { limit: 2 })
    t.match(first.accounts, [
      {
        channel: { id: hex('ff', 32) },
        calls: 3,
        earnedAtomic: 30_000n,
        claimedAtomic: 0n,
        parkedReason: null,
      },
      { channel: { id: hex('cd', 32) }, calls: 0, openedAtMs: startMs },
    ])
    const second = await under.channelBooks.page('store-1', { limit: 2, cursor: first.nextCursor! })
    t.match(second, { accounts: [{ channel: { id: hex('ab', 32) } }], nextCursor: null })
    t.equal(second.accounts.length, 1)
  })
}
