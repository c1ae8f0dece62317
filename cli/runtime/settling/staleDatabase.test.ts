import type { Test } from 'tap'
import t from 'tap'
import { transferScheme } from '../../../core/payments/transfers.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { ClaimRequest } from '../../../core/ports/store/ledger.ts'
import {
  change,
  claimed,
  saleOf,
  sampleAttempt,
  sampleClaim,
  samplePurchase,
  testClock,
} from '../../../test/contracts/samples.ts'
import { openTestStore } from '../../../test/helpers/store/testStore.ts'
import { warnOfStaleDatabase } from './leaseHolder.ts'

const network = 'eip155:84532'
const { settler: id } = sampleAttempt

/** A ledger, and what a start logs if the chain has this many transactions. */
function ledger(t: Test) {
  const clock = testClock()
  const store = openTestStore({ clock, storeClock: clock })
  t.teardown(() => store.close())
  async function sell(name: string, sequence: string | null, more: Partial<ClaimRequest> = {}, settler = id) {
    const claim = sampleClaim(name, more)
    const row = await claimed(store, claim)
    const attempt =
      sequence === null ? null : { ...sampleAttempt, settler, sequence, transaction: `0x${name}` }
    await store.ledger.apply(change(claim, row, 'claimed', 'settling', { ...(attempt && { attempt }) }))
    await store.ledger.apply(
      change(claim, row, 'settling', 'settled', saleOf(samplePurchase(claim, `0x${name}`))),
    )
    await store.ledger.apply(change(claim, row, 'settled', 'delivered', { purchaseStatus: 'delivered' }))
  }
  /** Reports `mined` at each read, or one value after the other. */
  const warnings = async (...mined: readonly [number, ...number[]]) => {
    const received: object[] = []
    const hear = (facts: object) => void received.push(facts)
    let polls = 0
    const look = async () => {
      const next = mined[Math.min(polls++, mined.length - 1)]!
      return {
        address: '0xabc',
        balance: 1n,
        paymentsLeft: 1n,
        inFlight: 0,
        nonce: { mined: next, pending: next + 5 },
      }
    }
    await warnOfStaleDatabase(network, { id, readState: look }, store.ledger, {
      ...silentLog,
      error: hear,
      warn: hear,
    })
    return received
  }
  return { store, sell, lines: warnings, clock }
}

t.test('more transactions on chain than the books know of are said, and as many are not', async (t) => {
  const { sell, lines } = ledger(t)
  t.strictSame(await lines(100), [], 'books that know of none say nothing')
  await sell('a', '41')
  await sell('b', '40')
  await sell('of another key', '99', {}, 'evm:eip155:84532:0xdef')
  await sell('of another network', '98', { network: 'eip155:8453' })
  await sell('a plain transfer', null, { scheme: transferScheme })
  t.strictSame(await lines(42), [])
  t.strictSame(await lines(41), [], 'the last one is on its way')
  t.strictSame(await lines(44), [{ network, key: id, transactionsOnChain: 44, lastInLedger: 41 }])
  t.strictSame(await lines(44, 42), [], 'one wrong count is no older copy')
})

t.test('books whose newest payments have forgotten what was signed say nothing', async (t) => {
  const { store, sell, lines, clock } = ledger(t)
  await sell('owed', '3')
  await sell('done', '9')
  const owed = (await store.ledger.list({ states: ['delivered'], limit: 9 })).find(
    ({ purchaseId }) => purchaseId === 'purchase-of-owed',
  )!
  await store.ledger.apply(
    change(owed, owed.row, 'delivered', 'refund_due', { purchaseStatus: 'refund_due' }),
  )
  t.strictSame(await lines(10), [])
  clock.nowMs += 1_000
  t.not(await store.ledger.forgetSigned(clock.nowMs, 0, 9), 0)
  t.strictSame(await lines(10), [], 'of what is owed back the number is kept, and it was not the last')
  await sell('anew', '10')
  t.strictSame(await lines(11), [])
  t.match(await lines(12), [{ lastInLedger: 10 }])
})

t.test('a chain or books that do not answer keep nobody from starting', async (t) => {
  const { store, sell } = ledger(t)
  await sell('a', '1')
  const received: object[] = []
  const log = { ...silentLog, warn: (facts: object) => void received.push(facts) }
  const look = async () => Promise.reject(new Error('no node'))
  await warnOfStaleDatabase(network, { id, readState: look }, store.ledger, log)
  await warnOfStaleDatabase(network, { id }, store.ledger, log)
  t.match(received, [{ err: /no node/ }])
  t.equal(received.length, 1)
})
