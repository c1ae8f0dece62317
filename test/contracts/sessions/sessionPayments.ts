import type { Test } from 'tap'
import { entriesOfRefund } from '../../../core/domain/ledger.ts'
import { SESSION_LIFETIME_MS } from '../../../core/domain/session.ts'
import { webhookKinds } from '../../../core/domain/webhook.ts'
import type { SessionMove } from '../../../core/ports/store/ledger.ts'
import { UNPAID_RETENTION_MS } from '../../../core/ports/store/sessions.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import {
  change,
  claimed,
  saleOf,
  sampleAttempt,
  sampleClaim,
  sampleKey,
  sampleLink,
  samplePurchase,
  sampleStore,
  startMs,
  type TestClock,
} from '../samples.ts'
import { sampleSession } from './sessions.ts'

export type SessionPaymentsUnderTest = Pick<
  DataStore,
  'ledger' | 'purchases' | 'sessions' | 'links' | 'stores' | 'webhooks'
> & { readonly clock: TestClock }

/** What every store keeps of a session and the payments for it: each move is in the commit of the payment's change. */
export function sessionPaymentsContract(t: Test, make: (t: Test) => Promise<SessionPaymentsUnderTest>): void {
  const does = (what: SessionMove['does']) => ({ session: { id: 'session', does: what } })

  async function stage(t: Test, more: Parameters<typeof sampleSession>[1] = {}) {
    const under = await make(t)
    await under.stores.create(sampleStore('s1'), null, sampleKey('k1', 's1'))
    await under.links.create(sampleLink('l1', 's1'))
    await under.sessions.create(sampleSession('session', more))
    const claimOf = (name: string) =>
      sampleClaim(name, { storeId: 's1', linkId: more.linkId ?? null, sessionId: 'session' })
    const pay = async (name: string) => {
      const claim = claimOf(name)
      return { claim, row: await claimed(under, claim) }
    }
    type Paying = Awaited<ReturnType<typeof pay>>
    const begin = ({ claim, row }: Paying) =>
      under.ledger.apply(
        change(claim, row, 'claimed', 'settling', {
          ...{ attempt: sampleAttempt, durability: 'flushed', ...does('take') },
        }),
      )
    const land = ({ claim, row }: Paying, from: 'settling' | 'failed_final' = 'settling') =>
      under.ledger.apply(
        change(claim, row, from, 'delivered', {
          ...saleOf(samplePurchase(claim, `0x${claim.purchaseId}`, { status: 'delivered' })),
          ...does('confirm'),
          events: [{ kind: 'purchase.confirmed' }, { kind: 'payment.confirmed' }],
        }),
      )
    const fail = ({ claim, row }: Paying) =>
      under.ledger.apply(change(claim, row, 'settling', 'failed_final', does('fail')))
    const session = async () => (await under.sessions.find('session'))!
    const endpoint = { id: 'e1', storeId: 's1', url: 'https://a.test', description: '', salt: 's' }
    const listen = (sinceMs: number) =>
      under.webhooks.create({ ...endpoint, kinds: webhookKinds, createdAtMs: sinceMs }, 9)
    return { ...under, pay, begin, land, fail, session, listen }
  }

  t.test('of two payments one is settled for a session, and it confirms it with its purchase', async (t) => {
    const s = await stage(t)
    const [one, two] = [await s.pay('1'), await s.pay('2')]
    const begun = await Promise.all([s.begin(one), s.begin(two)])
    t.strictSame(begun.toSorted(), [false, true])
    const [first, second] = begun[0] ? [one, two] : [two, one]
    t.match(await s.session(), { state: 'open', paymentRow: first.row, paid: null })
    t.match(await s.ledger.find(second.claim.key), { state: 'claimed', attempt: null })
    t.equal(await s.land(first), true)
    t.match(await s.session(), {
      ...{ state: 'confirmed', endedAtMs: s.clock.nowMs, paymentRow: first.row },
      paid: {
        purchaseId: first.claim.purchaseId,
        txHash: `0x${first.claim.purchaseId}`,
        network: first.claim.network,
        buyerWallet: first.claim.payer,
      },
    })
    const purchase = await s.purchases.find(first.claim.purchaseId)
    t.match(purchase, { linkId: null, sessionId: 'session', status: 'delivered' })
    t.equal(await s.begin(second), false, 'it is not paid again')
    t.strictSame((await s.purchases.ledgerCheck()).broken, [])
  })

  t.test('while a payment is being settled neither its time nor a caller ends it', async (t) => {
    const s = await stage(t)
    const one = await s.pay('1')
    await s.begin(one)
    const overMs = (await s.session()).expiresAtMs + 1
    t.match(await s.sessions.cancel('session', startMs), { state: 'open', paymentRow: one.row })
    t.equal(await s.sessions.expire(overMs, 10), 0)
    s.clock.nowMs = overMs
    t.equal(await s.land(one), true)
    t.match(await s.session(), { state: 'confirmed' })
  })

  t.test('what was not sent gives the session back; its own payment only can', async (t) => {
    const s = await stage(t)
    const [one, two] = [await s.pay('1'), await s.pay('2')]
    await s.begin(one)
    await s.ledger.apply(change(two.claim, two.row, 'claimed', 'rejected', does('release')))
    t.match(await s.session(), { paymentRow: one.row }, 'not by another one')
    await s.ledger.apply(
      change(one.claim, one.row, 'settling', 'rejected', { attempt: null, ...does('release') }),
    )
    t.match(await s.session(), { state: 'open', paymentRow: null, failures: 0 })
    t.equal(await s.begin(await s.pay('3')), true)
  })

  t.test('the third payment that fails for good fails the session', async (t) => {
    const s = await stage(t)
    for (let i = 1; i <= 3; i++) {
      const one = await s.pay(String(i))
      t.equal(await s.begin(one), true)
      t.equal(await s.fail(one), true)
      t.match(await s.session(), { state: i < 3 ? 'open' : 'failed', failures: i, paymentRow: null })
    }
    t.equal(await s.begin(await s.pay('4')), false)
    t.match(await s.session(), { endedAtMs: s.clock.nowMs })
  })

  t.test(
    'one that had been given up confirms it after all, but not what ended or is paid otherwise',
    async (t) => {
      const s = await stage(t)
      const [one, two] = [await s.pay('1'), await s.pay('2')]
      await s.begin(one)
      await s.fail(one)
      await s.begin(two)
      t.equal(await s.land(one, 'failed_final'), false, 'another buyer pays')
      t.match(await s.ledger.find(one.claim.key), { state: 'failed_final' })
      t.equal(await s.purchases.find(one.claim.purchaseId), undefined)
      await s.fail(two)
      t.equal(await s.land(one, 'failed_final'), true)
      t.match(await s.session(), { state: 'confirmed', paid: { purchaseId: one.claim.purchaseId } })
      t.equal(await s.land(two, 'failed_final'), false)

      const ended = await stage(t)
      const late = await ended.pay('late')
      await ended.begin(late)
      await ended.fail(late)
      ended.clock.nowMs = (await ended.session()).expiresAtMs
      t.equal(await ended.land(late, 'failed_final'), false, 'its time is over')
      await ended.sessions.cancel('session', startMs)
      ended.clock.nowMs = startMs
      t.equal(await ended.land(late, 'failed_final'), false)
    },
  )

  t.test(
    'a payment for a session that has ended is not begun, and a change that fails moves no session',
    async (t) => {
      const s = await stage(t)
      const one = await s.pay('1')
      s.clock.nowMs = (await s.session()).expiresAtMs
      t.equal(await s.begin(one), false, 'its time is over, before any process has written it')
      s.clock.nowMs -= 1
      const other = { ...one, claim: { ...one.claim, purchaseId: 'another' } }
      t.equal(await s.begin(other), false)
      t.match(await s.session(), { paymentRow: null })
      t.equal(await s.begin(one), true)
      await s.ledger.apply(change(other.claim, other.row, 'settling', 'failed_final', does('fail')))
      t.match(await s.session(), { paymentRow: one.row, failures: 0 })
    },
  )

  t.test('a session whose link is deleted meanwhile waits for its payment, and fails with it', async (t) => {
    for (const end of ['land', 'fail'] as const) {
      const s = await stage(t, { linkId: 'l1' })
      const one = await s.pay('1')
      await s.begin(one)
      await s.links.deactivate('l1', startMs)
      t.match(await s.session(), { state: 'open', paymentRow: one.row })
      t.equal(await s[end](one), true)
      t.match(await s.session(), { state: end === 'land' ? 'confirmed' : 'failed' })
    }
  })

  t.test('a listener is notified of its end once, in the same commit', async (t) => {
    const s = await stage(t)
    await s.listen(startMs - 1)
    const one = await s.pay('1')
    await s.begin(one)
    await s.land(one)
    await s.sessions.create(sampleSession('quiet'))
    s.clock.nowMs += 31 * 60_000
    t.equal(await s.sessions.expire(s.clock.nowMs, 10), 1)
    t.equal(await s.sessions.expire(s.clock.nowMs, 10), 0)
    const notified = (await s.webhooks.awaitingFanOut(10)).map(
      ({ kind, purchaseId, sessionId, linkId, storeId }) => ({
        kind,
        purchaseId,
        sessionId,
        linkId,
        storeId,
      }),
    )
    const { purchaseId } = one.claim
    const of = { linkId: null, storeId: 's1' }
    t.strictSame(notified, [
      { kind: 'purchase.confirmed', purchaseId, sessionId: 'session', ...of },
      { kind: 'payment.confirmed', purchaseId, sessionId: 'session', ...of },
      { kind: 'payment.expired', purchaseId: null, sessionId: 'quiet', ...of },
    ])
    t.strictSame((await s.purchases.ledgerCheck()).broken, [])
  })

  t.test('what ended is never forgotten once a payment for it was claimed, landed or not', async (t) => {
    const paid = await stage(t)
    const one = await paid.pay('1')
    await paid.begin(one)
    await paid.land(one)

    const failed = await stage(t)
    const given = await failed.pay('1')
    await failed.begin(given)
    await failed.fail(given)

    const late = await stage(t)
    await late.sessions.cancel('session', startMs)
    const { claim, row } = await late.pay('1')
    const owed = saleOf(samplePurchase(claim, '0x1', { status: 'refund_due' }))
    t.equal(await late.ledger.apply(change(claim, row, 'claimed', 'refund_due', owed)), true)

    for (const s of [paid, failed, late]) {
      await s.sessions.create(sampleSession('unpaid', { createdAtMs: startMs + 1 }))
      const overMs = startMs + SESSION_LIFETIME_MS
      await s.sessions.expire(overMs, 10)
      const { state } = await s.session()
      // As often as it takes: what stays does not keep others from being forgotten.
      for (let i = 0; i < 3; i++) await s.sessions.forget(overMs + UNPAID_RETENTION_MS, 1)
      t.equal(await s.sessions.find('unpaid'), undefined)
      t.match(await s.session(), { state })
      t.strictSame((await s.purchases.ledgerCheck()).broken, [])
    }
  })

  t.test('a session says how its purchase stands: gone from the chain, back, or given back', async (t) => {
    const s = await stage(t)
    const one = await s.pay('1')
    await s.begin(one)
    await s.land(one)
    const { claim, row } = one
    const status = async () => (await s.session()).paid?.status
    t.equal(await status(), 'delivered')
    const gone = {
      purchaseStatus: 'reorged' as const,
      entries: entriesOfRefund(samplePurchase(claim, '0x1')),
    }
    t.equal(await s.ledger.apply(change(claim, row, 'delivered', 'reorged', gone)), true)
    t.match(await s.session(), { state: 'confirmed', paid: { status: 'reorged' } })
    t.match((await s.sessions.list('s1', { limit: 9, nowMs: startMs })).sessions, [
      { paid: { status: 'reorged' } },
    ])
    t.strictSame((await s.purchases.ledgerCheck()).broken, [])
    const back = saleOf(samplePurchase(claim, '0xback', { status: 'delivered' }))
    t.equal(
      await s.ledger.apply(change(claim, row, 'reorged', 'delivered', { ...back, ...does('confirm') })),
      true,
    )
    t.match(await s.session(), { state: 'confirmed', paid: { status: 'delivered', txHash: '0xback' } })
    const owed = { purchaseStatus: 'refund_due' } as const
    t.equal(await s.ledger.apply(change(claim, row, 'delivered', 'refund_due', owed)), true)
    t.equal(await status(), 'refund_due')
    t.strictSame((await s.purchases.ledgerCheck()).broken, [])
  })

  t.test(
    'the ledger check demands that a session is confirmed by its purchase, and waits for none that is over',
    async (t) => {
      const s = await stage(t)
      const sold = await s.pay('1')
      await s.begin(sold)
      const sale = saleOf(samplePurchase(sold.claim, '0x1', { status: 'delivered' }))
      t.equal(await s.ledger.apply(change(sold.claim, sold.row, 'settling', 'delivered', sale)), true)
      t.strictSame((await s.purchases.ledgerCheck()).broken.toSorted(), [
        `purchase ${sold.claim.purchaseId} is delivered, its session session is open`,
        `session session is open, its payment is delivered with purchase ${sold.claim.purchaseId}`,
      ])
      const other = await stage(t)
      const one = await other.pay('1')
      await other.begin(one)
      await other.ledger.apply(change(one.claim, one.row, 'settling', 'rejected', { attempt: null }))
      t.match((await other.purchases.ledgerCheck()).broken, [
        /session session is open, its payment is rejected/,
      ])
    },
  )

  t.test('the ledger check demands the events of sessions', async (t) => {
    const s = await stage(t)
    await s.listen(startMs - 120_000)
    const one = await s.pay('1')
    await s.begin(one)
    const { claim, row } = one
    const sale = saleOf(samplePurchase(claim, '0x1', { status: 'delivered' }))
    const silent = { ...sale, ...does('confirm'), events: [{ kind: 'purchase.confirmed' as const }] }
    t.equal(await s.ledger.apply(change(claim, row, 'settling', 'delivered', silent)), true)
    const { broken } = await s.purchases.ledgerCheck()
    t.match(broken, [/session session is confirmed without an event/])
  })
}
