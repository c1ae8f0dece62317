import t, { type Test } from 'tap'
import type { RefundVerdict } from '../ports/chains/refundProofs.ts'
import { stage } from './recovery.fixture.ts'
import * as rules from './rules.ts'

/** A sale that was paid back, and what its seller has been told since. */
async function paidBack(t: Test) {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const key = await on.payment(lease.current, 'delivered')
  const sold = await on.find(key)
  const purchase = (await on.store.purchases.find(sold.purchaseId))!
  const refund = { network: sold.network, transaction: `0x${'b'.repeat(64)}`, paymentKeys: [] }
  t.ok(await on.books.apply(rules.payBack(sold, purchase, refund)))
  const told: (string | undefined)[] = []
  const own = recovery({
    async applyAll(changes) {
      const done = await on.books.applyAll(changes)
      for (const [i, { tells = [] }] of changes.entries())
        if (done[i] === true) told.push(...tells.map(({ kind, detail }) => `${kind} ${detail}`))
      return done
    },
  })
  return {
    ...{ on, key, told },
    see: (verdict: RefundVerdict) => void (on.refund.verdict = verdict),
    /** So long the recovery looks for what is due, each second. */
    async pass(seconds: number) {
      for (let second = 0; second < seconds; second++) {
        on.step(1_000)
        await own.round()
      }
    },
    due: async () => (await on.books.parked(1, 9)).rows.map(({ dueReason }) => dueReason),
  }
}

for (const status of ['not_found', 'reverted'] as const)
  t.test(`the seller is told, once, of a refund that left the chain (${status})`, async (t) => {
    const { on, key, see, pass, told, due } = await paidBack(t)
    see({ status })
    await pass(60)
    t.strictSame(told, [], 'not at once: it is in another block soon, mostly')
    t.strictSame(await due(), ['its refund is not on chain'], 'the operator sees it')
    await pass(600)
    t.strictSame(told, ['refund.due refund_left_chain'])
    t.match(await on.find(key), { state: 'refunded', errorReason: 'refund_left_chain' })
    await pass(600)
    t.equal(told.length, 1)
    t.match(await on.ledger(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  })

t.test('a refund that comes back in time, or that no node can tell of, is no news', async (t) => {
  const { on, key, see, pass, told, due } = await paidBack(t)
  see({ status: 'not_found' })
  await pass(100)
  see({ status: 'not_final' })
  await pass(900)
  t.strictSame([told, await due()], [[], []])
  t.match(await on.find(key), { state: 'refunded', errorReason: null })
  for (const verdict of [
    { status: 'unavailable', message: 'No node answers.' },
    { status: 'not_configured' },
  ] as const) {
    const other = await paidBack(t)
    other.see(verdict)
    await other.pass(900)
    t.strictSame(other.told, [], verdict.status)
  }
})

t.test(
  'looks that failed for another reason do not count: the seller is not told after one that finds no refund',
  async (t) => {
    const { on, see, pass, told, due } = await paidBack(t)
    on.see(() => 'unknown')
    await pass(900)
    t.strictSame(told, [])
    see({ status: 'not_found' })
    for (let second = 0; second < 600 && (await due())[0] !== 'its refund is not on chain'; second++)
      await pass(1)
    t.strictSame([told, await due()], [[], ['its refund is not on chain']])
    await pass(600)
    t.strictSame(told, ['refund.due refund_left_chain'])
  },
)
