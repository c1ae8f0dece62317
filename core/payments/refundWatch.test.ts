import t, { type Test } from 'tap'
import { settledIn, stage } from '../../test/helpers/core/payments/recovery.ts'
import { accountedStates } from '../domain/payment.ts'
import type { RefundVerdict } from '../ports/chains/refundProofs.ts'
import { payBack } from './reconciliation.ts'

/** A sale that was refunded, and the events that its seller has got since. */
async function paidBack(t: Test) {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const key = await on.payment(lease.current, 'delivered')
  const sold = await on.find(key)
  const purchase = (await on.store.purchases.find(sold.purchaseId))!
  const refund = { network: sold.network, transaction: `0x${'b'.repeat(64)}`, paymentKeys: [] }
  t.ok(await on.ledger.apply(payBack(sold, purchase, refund)))
  const notified: (string | undefined)[] = []
  const refused = { isOn: false, count: 0 }
  const own = recovery({
    async applyAll(changes) {
      if (refused.isOn) {
        refused.count++
        return changes.map(() => false)
      }
      const done = await on.ledger.applyAll(changes)
      for (const [i, { events = [] }] of changes.entries())
        if (done[i] === true) notified.push(...events.map(({ kind, detail }) => `${kind} ${detail}`))
      return done
    },
  })
  /** For this many seconds recovery processes what is due, each second. */
  async function pass(seconds: number) {
    for (let second = 0; second < seconds; second++) {
      on.step(1_000)
      if ((await on.ledger.due({ states: accountedStates, limit: 1 })).length > 0) await own.round()
    }
  }
  return {
    on,
    key,
    notified,
    refund,
    refused,
    pass,
    replace: async (other: typeof refund) => {
      const owed = await on.find(key)
      return on.ledger.apply(payBack(owed, purchase, other))
    },
    see: (verdict: typeof on.refund.verdict) => void (on.refund.verdict = verdict),
    /** Advances until three lookups have found it missing. */
    async missedThrice() {
      const reason = 'its refund is not on chain (lookups: 3)'
      for (let second = 0; second < 3_600 && (await on.find(key)).dueReason !== reason; second++)
        await pass(1)
    },
    due: async () => (await on.ledger.parked(1, 9)).rows.map(({ dueReason }) => dueReason),
  }
}

/** The verdict of a node that follows the chain and does not have the transaction. */
const missing = (nowMs: number): RefundVerdict => ({ status: 'not_found', headMs: nowMs - 2_000 })

for (const status of ['not_found', 'reverted'] as const)
  t.test(`the seller is told, once, of a refund that left the chain (${status})`, async (t) => {
    const { on, key, see, pass, notified, due } = await paidBack(t)
    see((nowMs) => (status === 'reverted' ? { status } : missing(nowMs)))
    await pass(60)
    t.strictSame(notified, [], 'not at once: it is in another block soon, mostly')
    t.match(await due(), [/^its refund is not on chain \(lookups: [1-8]\)$/], 'the operator sees it')
    await pass(600)
    t.strictSame(notified, ['refund.due refund_left_chain'])
    t.match(await on.find(key), { state: 'refund_due', errorReason: 'refund_left_chain' })
    await pass(600)
    t.equal(notified.length, 1)
    t.strictSame(await due(), [], 'it is the seller’s work now')
    t.match(await on.summary(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  })

t.test('a refund that comes back in time is no news', async (t) => {
  const { on, key, see, pass, notified, due } = await paidBack(t)
  see(missing)
  await pass(100)
  see({ status: 'not_final' })
  await pass(100)
  see({ status: 'proved', paymentKeys: [] })
  await pass(900)
  t.strictSame([notified, await due()], [[], []])
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
    const { see, pass, notified, due } = await paidBack(t)
    see(verdict)
    await pass(3_600)
    t.strictSame(notified, [])
    t.match(await due(), [/^its refund /], 'the operator sees it')
    see(missing)
    await pass(1_200)
    t.strictSame(notified, ['refund.due refund_left_chain'], 'the watch goes on')
  })

t.test('a proof that was accepted and reads otherwise now still stands', async (t) => {
  const { see, pass, notified, due } = await paidBack(t)
  see({ status: 'mismatch', what: 'order' })
  await pass(900)
  t.strictSame([notified, await due()], [[], []])
})

t.test('a look that says nothing neither counts nor undoes those that found it missing', async (t) => {
  const { see, pass, notified } = await paidBack(t)
  let polls = 0
  see((nowMs) => (polls++ % 2 === 0 ? missing(nowMs) : { status: 'unavailable', message: 'Busy.' }))
  await pass(240)
  t.strictSame(notified, [], 'half of the looks')
  await pass(1_200)
  t.strictSame(notified, ['refund.due refund_left_chain'])
})

t.test(
  'a missing refund that no node can tell of any more is left to the operator after a day',
  async (t) => {
    const { on, key, see, pass, notified, due } = await paidBack(t)
    see(missing)
    await pass(60)
    t.match(await due(), [/^its refund is not on chain/])
    see({ status: 'unavailable', message: 'No node answers.' })
    await pass(300)
    const before = on.requests.length
    await pass(2_000)
    t.ok(on.requests.length > before, 'its sale is looked up all the same')
    on.step(86_400_000)
    for (let look = 0; look < 200; look++) {
      on.step(600_000)
      await pass(1)
    }
    const known = on.requests.length
    on.step(86_400_000)
    await pass(10)
    t.equal(on.requests.length, known, 'the lookups have ended')
    t.match(await due(), [/^its refund is not on chain \(lookups: [1-8]\)$/], 'the operator sees why')
    t.strictSame(notified, [])
    const { row, state } = await on.find(key)
    const [parked] = (await on.ledger.parked(1, 9)).rows
    await on.ledger.putOff([{ row, state, afterMs: 0, tries: 1, reason: parked!.dueReason! }])
    see(missing)
    await pass(600)
    t.strictSame(notified, ['refund.due refund_left_chain'], 'and those that found it missing still count')
  },
)

t.test(
  'a sale is watched while no node can tell of its missing refund: it may leave the chain as well',
  async (t) => {
    const { on, key, see, pass } = await paidBack(t)
    see(missing)
    await pass(60)
    see({ status: 'unavailable', message: 'No node answers.' })
    on.see(() => 'no')
    await pass(400)
    t.match(await on.find(key), { state: 'refunded', event: null })
  },
)

t.test(
  'after its refund left the chain, the sale may as well, and is owed again when it returns',
  async (t) => {
    const { on, key, see, pass, notified } = await paidBack(t)
    see(missing)
    await pass(400)
    t.strictSame(notified, ['refund.due refund_left_chain'])
    on.see(() => 'no')
    for (let second = 0; second < 900 && (await on.find(key)).state !== 'reorged'; second++) await pass(1)
    t.match(await on.find(key), { state: 'reorged', errorReason: 'refund_left_chain' })
    t.match(await on.summary(), { broken: { length: 0 }, unbalanced: { length: 0 } })
    on.see(() => 'yes')
    on.settle(settledIn)
    await pass(120)
    t.match(await on.find(key), { state: 'refund_due', errorReason: 'refund_left_chain' })
    t.match(await on.summary(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  },
)

t.test('a refund that comes back after its seller was told is recorded again', async (t) => {
  const { on, key, see, pass, notified, due, refund } = await paidBack(t)
  see(missing)
  for (let second = 0; second < 600 && notified.length === 0; second++) await pass(1)
  await pass(7_200)
  see({ status: 'proved', paymentKeys: [] })
  await pass(900)
  t.strictSame(notified, ['refund.due refund_left_chain', 'refund.recorded undefined'])
  const { state, row, purchaseId } = await on.find(key)
  t.equal(state, 'refunded')
  t.match(await on.ledger.refundOf(row), { transaction: refund.transaction })
  t.strictSame(await on.store.purchases.lostRefundsOf(purchaseId), [])
  t.strictSame(await due(), [])
  t.match(await on.summary(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test('a refund that is back and cannot be recorded is tried less and less often', async (t) => {
  const { on, key, see, pass, notified, due, refused } = await paidBack(t)
  see(missing)
  for (let second = 0; second < 600 && notified.length === 0; second++) await pass(1)
  refused.isOn = true
  see({ status: 'proved', paymentKeys: [] })
  await pass(3_600)
  t.ok(refused.count > 5 && refused.count < 20, `${refused.count} times in an hour`)
  t.match(await due(), [/^its refund is back on chain, and could not be recorded$/], 'the operator sees it')
  refused.isOn = false
  await pass(600)
  t.match(await on.find(key), { state: 'refunded', errorReason: null })
  await pass(600)
  t.strictSame(await due(), [])
})

/** The first refund left the chain, and another one replaced it. */
async function replaced(t: Test) {
  const stage = await paidBack(t)
  const { see, pass, notified, refund, replace } = stage
  see(missing)
  for (let second = 0; second < 600 && notified.length === 0; second++) await pass(1)
  const other = { ...refund, transaction: `0x${'c'.repeat(64)}` }
  t.ok(await replace(other))
  const only =
    (verdict: (nowMs: number) => RefundVerdict) =>
    (nowMs: number, { transaction }: { transaction: string }): RefundVerdict =>
      transaction === other.transaction ? verdict(nowMs) : missing(nowMs)
  return { ...stage, other, seeOther: (verdict: (nowMs: number) => RefundVerdict) => see(only(verdict)) }
}

t.test('lookups that found a refund missing count only in a row: it is found between them', async (t) => {
  const { on, key, seeOther, missedThrice, pass, notified } = await replaced(t)
  for (let times = 0; times < 4; times++) {
    seeOther(missing)
    await missedThrice()
    seeOther(() => ({ status: 'proved', paymentKeys: [] }))
    await pass(900)
  }
  t.strictSame(notified, ['refund.due refund_left_chain'], 'nothing more than the first one')
  t.match(await on.find(key), { state: 'refunded' })
})

t.test('also where its sale can not be looked up meanwhile', async (t) => {
  const { on, key, see, missedThrice, pass, notified, due } = await paidBack(t)
  on.see(() => 'unknown')
  for (let times = 0; times < 4; times++) {
    see(missing)
    await missedThrice()
    see({ status: 'proved', paymentKeys: [] })
    await pass(900)
  }
  t.strictSame(notified, [])
  t.match(await on.find(key), { state: 'refunded' })
  t.notMatch(await due(), [/its refund is not on chain/], 'nor is the operator told so')
})

t.test('a refund that is back, and moves no money to the buyer there, is not recorded again', async (t) => {
  const { on, key, see, pass, notified } = await paidBack(t)
  see(missing)
  for (let second = 0; second < 600 && notified.length === 0; second++) await pass(1)
  see({ status: 'mismatch', what: 'amount' })
  await pass(7_200)
  t.match(await on.find(key), { state: 'refund_due', errorReason: 'refund_left_chain' })
  see({ status: 'mismatch', what: 'order' })
  await pass(900)
  t.match(await on.find(key), { state: 'refunded' }, 'the sale has moved behind it: the buyer has the money')
})

t.test(
  'a refund that is back as a payment for something is not recorded, and left to the operator',
  async (t) => {
    const { on, key, see, pass, notified, due } = await paidBack(t)
    see(missing)
    for (let second = 0; second < 600 && notified.length === 0; second++) await pass(1)
    const { lease } = await on.process('other')
    see({ status: 'proved', paymentKeys: [await on.payment(lease.current, 'claimed')] })
    await pass(3_600)
    t.match(await on.find(key), { state: 'refund_due', errorReason: 'refund_left_chain' })
    for (let look = 0; look < 200; look++) {
      on.step(600_000)
      await pass(1)
    }
    const { tries } = await on.find(key)
    on.step(86_400_000)
    await pass(10)
    t.equal((await on.find(key)).tries, tries, 'the lookups have ended')
    t.match(await due(), [/^its refund is back on chain, and could not be recorded$/])
  },
)

t.test(
  'one reorganisation takes a sale and its refund, and only the sale comes back: it is owed',
  async (t) => {
    const { on, key, see, pass, notified } = await paidBack(t)
    // No node has the sale, so none is known to go back far enough to miss its refund.
    see({ status: 'not_found' })
    on.see(() => 'no')
    await pass(400)
    t.match(await on.find(key), { state: 'refunded', event: null })
    on.see(() => 'yes')
    see(missing)
    await pass(1_800)
    t.strictSame(notified, ['refund.due refund_left_chain'])
    t.match(await on.find(key), { state: 'refund_due', errorReason: 'refund_left_chain' })
    t.match(await on.summary(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  },
)

t.test(
  'a refund whose sale left its place is looked up as long as any other, and then no more',
  async (t) => {
    const { on, key, pass, notified, due } = await paidBack(t)
    on.see(() => 'no')
    await pass(60)
    t.match(await on.find(key), { state: 'refunded', event: null })
    await pass(900)
    t.strictSame([notified, await due()], [[], []])
    const known = on.requests.length
    on.step(86_400_000)
    await pass(10)
    t.equal(on.requests.length, known, 'the lookups have ended')

    const other = await paidBack(t)
    other.on.see(() => 'no')
    await other.pass(60)
    other.see(missing)
    await other.pass(900)
    t.strictSame(other.notified, ['refund.due refund_left_chain'])
  },
)

t.test(
  'two are told only where both are known to stand: one may have taken the place of the other',
  async (t) => {
    const { on, key, see, pass, notified, other } = await replaced(t)
    const first: RefundVerdict = { status: 'proved', paymentKeys: [] }
    see((_, { transaction }) => (transaction === other.transaction ? { status: 'not_found' } : first))
    await pass(1_800)
    t.strictSame(notified, ['refund.due refund_left_chain'])
    see(first)
    await pass(1_800)
    t.strictSame(notified, ['refund.due refund_left_chain', 'refund.recorded refunded_twice'])
    t.match(await on.find(key), { state: 'refunded', errorReason: 'refunded_twice' })
  },
)

t.test('a refund that comes back after another one replaced it counts once, and two are told', async (t) => {
  const { on, key, see, pass, notified, refund, replace } = await paidBack(t)
  see(missing)
  for (let second = 0; second < 600 && notified.length === 0; second++) await pass(1)
  const other = { ...refund, transaction: `0x${'c'.repeat(64)}` }
  t.ok(await replace(other))
  const ofOthers = (nowMs: number, { transaction }: { transaction: string }): RefundVerdict =>
    transaction === refund.transaction ? missing(nowMs) : { status: 'proved', paymentKeys: [] }
  see(ofOthers)
  await pass(7_200)
  t.equal(notified.length, 1, 'the first one stays away')
  see({ status: 'proved', paymentKeys: [] })
  await pass(7_200)
  t.strictSame(notified, ['refund.due refund_left_chain', 'refund.recorded refunded_twice'])
  const { state, row, errorReason } = await on.find(key)
  t.strictSame([state, errorReason], ['refunded', 'refunded_twice'])
  t.match(await on.ledger.refundOf(row), { transaction: other.transaction })
  t.match(await on.summary(), { purchases: 1, broken: { length: 0 }, unbalanced: { length: 0 } })

  see((nowMs, { transaction }) =>
    transaction === other.transaction ? missing(nowMs) : { status: 'proved', paymentKeys: [] },
  )
  // Recovery has stopped its lookups by then; the operator makes the row due.
  await on.ledger.putOff([{ row, state, afterMs: 0, tries: 0 }])
  await pass(600)
  t.equal((await on.ledger.refundOf(row))?.transaction, refund.transaction, 'the one that stands')
  t.notOk(notified.slice(2).includes('refund.due refund_left_chain'), 'its seller owes nothing')
  t.match(await on.summary(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test(
  'looks that failed for another reason do not count: the seller is not told after one that finds no refund',
  async (t) => {
    const { on, see, pass, notified, due } = await paidBack(t)
    on.see(() => 'unknown')
    await pass(900)
    t.strictSame(notified, [])
    see(missing)
    const first = 'its refund is not on chain (lookups: 1)'
    for (let second = 0; second < 600 && (await due())[0] !== first; second++) await pass(1)
    t.strictSame([notified, await due()], [[], [first]])
    await pass(600)
    t.strictSame(notified, ['refund.due refund_left_chain'])
  },
)
