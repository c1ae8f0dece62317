import t, { type Test } from 'tap'
import type { PaymentRecord } from '../../core/domain/payment.ts'
import { loseRefund, noteRefundedTwice, payBack } from '../../core/payments/reconciliation.ts'
import type { PaymentChange } from '../../core/ports/store/ledger.ts'
import { signInBrowser } from '../../test/helpers/admin-api/browser.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { evmWallet } from '../../test/helpers/admin-api/wallets.ts'

async function shop(t: Test, overrides = {}) {
  const f = await startAdmin(t, overrides)
  const browser = await signInBrowser(f, evmWallet())
  const storeId: string = browser.response.body.data.store.id
  const url = await f.seller()
  const link = (await browser.call('POST', '/api/v1/links', { url, title: 'Weather <b>' })).body.data
    .id as string
  const sale = (more: object = {}) =>
    sell(f.db, { ...{ storeId, linkId: link, amount: '0.1', atMs: f.clock.nowMs }, ...more })
  return { f, browser, storeId, link, sale }
}

t.test('nothing waits for a seller whose links are well', async (t) => {
  const { browser, sale } = await shop(t)
  await sale({ state: 'delivered' })
  t.same((await browser.call('GET', '/api/dashboard/attention')).body.data, { items: [] })
})

t.test(
  'money comes first, then what can not be bought, then who is not heard; never those of others',
  async (t) => {
    const { f, browser, storeId, link, sale } = await shop(t, {
      payoutFaults: async () => ['The wallet has no account of the token.'],
    })
    const stranger = await signInBrowser(f)
    const id = await sale({ state: 'refund_due' })
    const reason = 'It answered 500 five times.'
    const { nowMs } = f.clock
    const suspension = { sinceMs: nowMs, reason, cooldownUntilMs: nowMs + 1, permanent: false }
    await f.db.links.setSuspension(link, suspension, nowMs)
    const hook = { storeId, description: '', kinds: ['test'] as const, salt: 'x', createdAtMs: nowMs }
    const url = 'https://shop.example/hook'
    const hookId = '00000000-0000-4000-8000-000000000001'
    await f.db.webhooks.create({ ...hook, id: hookId, url }, 9)
    await f.db.webhooks.change(hookId, { isEnabled: false }, nowMs)
    const { items } = (await browser.call('GET', '/api/dashboard/attention')).body.data
    t.match(items, [
      { kind: 'refund_due', id },
      { kind: 'link_suspended', id: link, title: '“Weather <b>” is suspended' },
      { kind: 'payout', detail: 'The wallet has no account of the token.' },
    ])
    t.equal(items.length, 3, 'what the seller switched off is no surprise')
    const { items: others } = (await stranger.call('GET', '/api/dashboard/attention')).body.data
    t.match(others, [{ kind: 'payout' }])
  },
)

t.test('of many refunds five are named', async (t) => {
  const { browser, sale } = await shop(t)
  for (let i = 0; i < 6; i++) await sale({ state: 'refund_due' })
  const { items } = (await browser.call('GET', '/api/dashboard/attention')).body.data
  t.equal(items.length, 6)
  t.match(items.at(-1), { kind: 'refund_due', id: null, title: /More/ })
  const list = await browser.call('GET', '/api/v1/purchases?status=refund_due')
  t.equal(list.body.data.purchases.length, 6)
})

t.test('of many suspended links five are named', async (t) => {
  const { f, browser } = await shop(t)
  const suspension = { sinceMs: 0, reason: 'It fails.', cooldownUntilMs: 0, permanent: false }
  for (let i = 0; i < 6; i++) {
    const body = { url: await f.seller(), title: `Link ${i}` }
    const { id } = (await browser.call('POST', '/api/v1/links', body)).body.data
    await f.db.links.setSuspension(id, suspension, f.clock.nowMs)
  }
  const { items } = (await browser.call('GET', '/api/dashboard/attention')).body.data
  const links = items.filter(({ kind }: { kind: string }) => kind === 'link_suspended')
  t.equal(links.length, 6)
  t.match(links.at(-1), { id: null, title: /More/ })
  const list = await browser.call('GET', '/api/v1/links?state=suspended')
  t.equal(list.body.data.links.length, 6)
})

t.test('how a payment went is told in the order in which it did, to its seller only', async (t) => {
  const { f, browser, sale } = await shop(t)
  const stranger = await signInBrowser(f)
  for (const [state, expected] of Object.entries({
    settled: ['claimed', 'settled'],
    delivered: ['claimed', 'settled', 'delivered'],
    refund_due: ['claimed', 'settled', 'refund_due'],
    refunded: ['claimed', 'settled', 'refunded'],
  })) {
    const id = await sale({ state })
    const path = `/api/dashboard/purchases/${id}/steps`
    const { steps, refund } = (await browser.call('GET', path)).body.data
    t.equal(refund === null, state === 'refunded', 'the transfer that refunds it, until it is')
    if (refund !== null)
      t.match(refund, { from: /a1$/, to: /b1$/, chain: 'base', amountAtomic: /^[1-9]\d*$/ })
    t.same(
      steps.map((one: { step: string }) => one.step),
      expected,
    )
    t.ok(steps[1].txHash)
    t.equal((await stranger.call('GET', path)).status, 404)
  }
})

t.test('a refund that left the chain is told with its transaction, and so is one that returns', async (t) => {
  const { f, browser, sale } = await shop(t)
  const { ledger, purchases } = f.db
  const id = await sale({ state: 'delivered' })
  const purchase = (await purchases.find(id))!
  const apply = async (to: (payment: PaymentRecord) => PaymentChange) =>
    t.ok(await ledger.apply(to((await ledger.find(purchase.paymentKey))!)))
  const refundBy = (digit: string) =>
    apply((payment) => {
      const { network } = purchase
      return payBack(payment, purchase, { network, transaction: hash(digit), paymentKeys: [] })
    })
  const shown = async () => (await browser.call('GET', `/api/dashboard/purchases/${id}/steps`)).body.data
  const hash = (digit: string) => `0x${digit.repeat(64)}`
  t.equal((await shown()).refund.lostTxHash, null)

  await refundBy('b')
  const refund = (await purchases.refundOf(id))!
  await apply((payment) => loseRefund(payment, purchase, refund, false))
  const lost = await shown()
  t.equal(lost.refund.lostTxHash, hash('b'))
  const steps = [
    { step: 'claimed' },
    { step: 'settled' },
    { step: 'refunded', txHash: hash('b') },
    { step: 'refund_due', txHash: hash('b'), detail: /left the chain/ },
  ]
  t.match(lost.steps, steps)
  t.equal(lost.steps.length, steps.length)
  const { items } = (await browser.call('GET', '/api/dashboard/attention')).body.data
  t.match(items, [{ kind: 'refund_due', id, detail: /^Your refund left the chain/ }])

  await refundBy('c')
  await apply(noteRefundedTwice)
  const twice = await shown()
  t.equal(twice.refund, null)
  t.match(twice.steps.slice(4), [
    { step: 'refunded', txHash: hash('c') },
    { step: 'refunded', txHash: null, detail: /was refunded twice/ },
  ])
  t.same((await browser.call('GET', '/api/dashboard/attention')).body.data, { items: [] })
})
