import type { Test } from 'tap'
import type { DataStore } from '../../core/ports/store/store.ts'
import { asset, channelOf, chargeOf } from './channelSamples.ts'
import {
  change,
  claimed,
  sampleClaim,
  sampleKey,
  sampleLink,
  sampleStore,
  sell,
  startMs,
  type TestClock,
} from './samples.ts'

type Under = DataStore & { readonly clock: TestClock; readonly storeClock: TestClock }

/** What every implementation of the port OperatorView keeps. */
export function operatorViewContract(t: Test, make: (t: Test) => Promise<Under>): void {
  t.test('stores come by name, page by page, with their links and their last sale', async (t) => {
    const under = await make(t)
    const { operatorView, stores, links } = under
    t.strictSame(await operatorView.stores('', '', 10), [])
    for (const name of ['cid', 'ann', 'bob'])
      await stores.create(
        sampleStore(`s-${name}`, { username: name, displayName: `The Shop of ${name.toUpperCase()}` }),
        null,
        sampleKey(`k-${name}`, `s-${name}`),
      )
    for (const id of ['l1', 'l2', 'l3']) await links.create(sampleLink(id, 's-ann'))
    await links.deactivate('l2', startMs)
    const sold = (name: string, createdAtMs: number) =>
      sell(under, name, `0x${name}`, { storeId: 's-ann', createdAtMs })
    await sold('k1', startMs + 1_000)
    await sold('k2', startMs + 5_000)
    const lost = await sold('k3', startMs + 9_000)
    await under.ledger.apply(
      change(lost.claim, lost.row, 'settled', 'reorged', { purchaseStatus: 'reorged' }),
    )
    const page = await operatorView.stores('', '', 2)
    t.match(page, [
      {
        id: 's-ann',
        username: 'ann',
        displayName: 'The Shop of ANN',
        links: 2,
        lastSaleAtMs: startMs + 5_000,
      },
      { username: 'bob', links: 0, lastSaleAtMs: null },
    ])
    t.equal(page.length, 2)
    t.match(await operatorView.stores('', 'bob', 2), [{ username: 'cid' }])
    t.strictSame(await operatorView.stores('', 'cid', 2), [])
    const found = async (search: string) => (await operatorView.stores(search, '', 9)).map((s) => s.username)
    t.strictSame(await found('nn'), ['ann'])
    t.strictSame(await found('of b'), ['bob'], 'a display name, in either case')
    t.strictSame(await found('shop'), ['ann', 'bob', 'cid'])
    t.strictSame(await found('%'), [], 'a search is a text and no pattern')
  })

  t.test('a sale by a payment channel is a sale', async (t) => {
    const under = await make(t)
    const { operatorView, stores, channels, channelBooks } = under
    await stores.create(sampleStore('store-1', { username: 'ann' }), null, null)
    await channels.open(channelOf('ab'), 1)
    t.match(await operatorView.stores('', '', 9), [{ lastSaleAtMs: null }], 'a deposit is none')
    const chargedAtMs = under.clock.now()
    await channels.charge(chargeOf('ab', 0n))
    await channelBooks.book([asset], 9)
    t.match(await operatorView.stores('', '', 9), [{ lastSaleAtMs: chargedAtMs }])
    await channels.update(channelOf('ab').id, { ...channelOf('ab'), totalClaimed: 10_000n })
    await channelBooks.book([asset], 9)
    t.match(await operatorView.stores('', '', 9), [{ lastSaleAtMs: chargedAtMs }], 'a claim is none')
    await sell(under, 'k1', '0xk1', { createdAtMs: chargedAtMs + 5 })
    t.match(await operatorView.stores('', '', 9), [{ lastSaleAtMs: chargedAtMs + 5 }])
  })

  t.test('what is still to be done is counted, and what is over is not', async (t) => {
    const under = await make(t)
    const { operatorView, stores, links, ledger } = under
    const none = { claimed: 0, settling: 0, pending: 0 }
    t.strictSame(await operatorView.backlog(), {
      open: none,
      ...{ refundsDue: 0, webhooksWaiting: 0, linksSuspended: 0 },
    })
    await stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
    const suspension = { sinceMs: startMs, reason: 'down', cooldownUntilMs: startMs + 1, permanent: false }
    for (const id of ['l1', 'l2', 'l3']) {
      await links.create(sampleLink(id, 's1'))
      if (id !== 'l1') await links.setSuspension(id, suspension, startMs)
    }
    await links.deactivate('l3', startMs)
    await claimed(under, sampleClaim('c1'))
    for (const name of ['c2', 'c3']) {
      const claim = sampleClaim(name)
      const row = await claimed(under, claim)
      const attempt = { settler: 'evm', bytes: '0x1', transaction: `0x${name}`, sequence: null }
      await ledger.apply(change(claim, row, 'claimed', 'settling', { attempt, durability: 'flushed' }))
      if (name === 'c3') await ledger.apply(change(claim, row, 'settling', 'pending'))
    }
    await sell(under, 'd1', '0xd1')
    const owed = await sell(under, 'd2', '0xd2')
    await ledger.apply(
      change(owed.claim, owed.row, 'settled', 'refund_due', { purchaseStatus: 'refund_due' }),
    )
    t.match(await operatorView.backlog(), {
      open: { claimed: 1, settling: 1, pending: 1 },
      ...{ refundsDue: 1, webhooksWaiting: 0, linksSuspended: 1 },
    })
  })

  t.test('what is suspended now is listed, the newest first, and how much there is', async (t) => {
    const { operatorView, stores, links } = await make(t)
    await stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
    const ids = ['l1', 'l2', 'l3', 'l4', 'l5']
    for (const id of ids) await links.create(sampleLink(id, 's1', { title: `Link ${id}` }))
    const since = (sinceMs: number) => ({
      sinceMs,
      reason: 'down',
      cooldownUntilMs: sinceMs + 1,
      permanent: false,
    })
    for (const [i, id] of ids.entries()) await links.setSuspension(id, since(startMs + i), startMs + i)
    await links.setSuspension('l2', null, startMs + 10)
    await links.deactivate('l3', startMs + 10)
    t.strictSame((await operatorView.suspended(2)).total, 3)
    t.strictSame(
      (await operatorView.suspended(2)).rows.map(({ linkId }) => linkId),
      ['l5', 'l4'],
    )
    await links.setSuspension('l2', since(startMs + 20), startMs + 20)
    const { rows } = await operatorView.suspended(9)
    t.match(rows[0], {
      ...{ linkId: 'l2', title: 'Link l2', username: 'ann', slug: 'l2' },
      suspension: since(startMs + 20),
    })
    t.equal(rows.length, 4)
  })

  t.test('gas is added up by day, of one network, to the last unit', async (t) => {
    const { operatorView, gas } = await make(t)
    const base = 'eip155:8453'
    const large = 10n ** 30n + 1n
    await gas.add(base, { storeId: 'a', day: 5, spent: large })
    await gas.add(base, { storeId: 'b', day: 5, spent: 2n })
    await gas.add(base, { storeId: 'a', day: 7, spent: 3n })
    await gas.add('eip155:84532', { storeId: 'a', day: 7, spent: 4n })
    t.strictSame(await operatorView.gasByDay(base, 5), [
      { day: 5, spent: large + 2n },
      { day: 7, spent: 3n },
    ])
    t.strictSame(await operatorView.gasByDay(base, 6), [{ day: 7, spent: 3n }])
    t.strictSame(await operatorView.gasByDay('eip155:1', 0), [])
  })
}
