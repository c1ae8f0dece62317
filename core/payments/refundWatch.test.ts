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
    see: (verdict: typeof on.refund.verdict) => void (on.refund.verdict = verdict),
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

/** What a node says that follows the chain and knows no such transaction. */
const missing = (nowMs: number): RefundVerdict => ({ status: 'not_found', headMs: nowMs - 2_000 })

for (const status of ['not_found', 'reverted'] as const)
  t.test(`the seller is told, once, of a refund that left the chain (${status})`, async (t) => {
    const { on, key, see, pass, told, due } = await paidBack(t)
    see((nowMs) => (status === 'reverted' ? { status } : missing(nowMs)))
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

t.test('a refund that comes back in time is no news', async (t) => {
  const { on, key, see, pass, told, due } = await paidBack(t)
  see(missing)
  await pass(100)
  see({ status: 'not_final' })
  await pass(100)
  see({ status: 'proved', paymentKeys: [] })
  await pass(900)
  t.strictSame([told, await due()], [[], []])
  t.match(await on.find(key), { state: 'refunded', errorReason: null })
})

const doubtful: Record<string, (nowMs: number) => RefundVerdict> = {
  'that no node can tell of': () => ({ status: 'unavailable', message: 'No node answers.' }),
  'that is in a block again': () => ({ status: 'not_final' }),
  'on a network without nodes': () => ({ status: 'not_configured' }),
  'that a node does not know which has forgotten the sale as well': () => ({ status: 'not_found' }),
  'that a node does not know which stopped before it': () => ({ status: 'not_found', headMs: 999_000 }),
  'that a node does not know which stopped after it': () => ({ status: 'not_found', headMs: 1_001_000 }),
}
for (const [what, verdict] of Object.entries(doubtful))
  t.test(`a refund ${what} is nothing to tell its seller, and is looked up again for hours`, async (t) => {
    const { see, pass, told, due } = await paidBack(t)
    see(verdict)
    await pass(3_600)
    t.strictSame(told, [])
    t.match(await due(), [/^its refund /], 'the operator sees it')
    see(missing)
    await pass(1_200)
    t.strictSame(told, ['refund.due refund_left_chain'], 'the watch goes on')
  })

t.test('a proof that was accepted and reads otherwise now still stands', async (t) => {
  const { see, pass, told, due } = await paidBack(t)
  see({ status: 'mismatch', what: 'order' })
  await pass(900)
  t.strictSame([told, await due()], [[], []])
})

t.test('a look that says nothing neither counts nor undoes those that found it missing', async (t) => {
  const { see, pass, told } = await paidBack(t)
  let looks = 0
  see((nowMs) => (looks++ % 2 === 0 ? missing(nowMs) : { status: 'unavailable', message: 'Busy.' }))
  await pass(240)
  t.strictSame(told, [], 'half of the looks')
  await pass(1_200)
  t.strictSame(told, ['refund.due refund_left_chain'])
})

t.test('after its seller was told, the sale is watched on: it may leave the chain as well', async (t) => {
  const { on, key, see, pass, told } = await paidBack(t)
  see(missing)
  await pass(400)
  t.equal(told.length, 1)
  t.match(await on.find(key), { event: '0' })
  on.see(() => 'no')
  await pass(400)
  t.match(await on.find(key), { state: 'refunded', event: null, errorReason: 'refund_left_chain' })
})

t.test('a refund that comes back after its seller was told is told as recorded again', async (t) => {
  const { on, key, see, pass, told, due } = await paidBack(t)
  see(missing)
  for (let second = 0; second < 600 && told.length === 0; second++) await pass(1)
  see({ status: 'proved', paymentKeys: [] })
  await pass(900)
  t.strictSame(told, ['refund.due refund_left_chain', 'refund.recorded undefined'])
  t.match(await on.find(key), { state: 'refunded', errorReason: null })
  t.strictSame(await due(), [])
  t.match(await on.ledger(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test(
  'looks that failed for another reason do not count: the seller is not told after one that finds no refund',
  async (t) => {
    const { on, see, pass, told, due } = await paidBack(t)
    on.see(() => 'unknown')
    await pass(900)
    t.strictSame(told, [])
    see(missing)
    for (let second = 0; second < 600 && (await due())[0] !== 'its refund is not on chain'; second++)
      await pass(1)
    t.strictSame([told, await due()], [[], ['its refund is not on chain']])
    await pass(600)
    t.strictSame(told, ['refund.due refund_left_chain'])
  },
)
