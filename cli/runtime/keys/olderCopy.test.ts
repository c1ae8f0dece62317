import t, { type Test } from 'tap'
import { createMemory } from '../../../adapters/memory/store/memory.ts'
import { openMemory } from '../../../adapters/memory/store/openMemory.ts'
import { transferScheme } from '../../../core/payments/bookTransfer.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { ClaimRequest } from '../../../core/ports/store/books.ts'
import {
  change,
  claimed,
  saleOf,
  sampleAttempt,
  sampleClaim,
  samplePurchase,
  testClock,
} from '../../../test/contracts/samples.ts'
import { tellOfOlderCopy } from './olderCopy.ts'

const network = 'eip155:84532'
const { settler: id } = sampleAttempt

/** Books, and what a start with so many transactions on chain says of them. */
function books(t: Test) {
  const clock = testClock()
  const store = openMemory({ memory: createMemory(clock), clock })
  t.teardown(() => store.close())
  async function sell(name: string, sequence: string | null, more: Partial<ClaimRequest> = {}, settler = id) {
    const claim = sampleClaim(name, more)
    const row = await claimed(store, claim)
    const attempt =
      sequence === null ? null : { ...sampleAttempt, settler, sequence, transaction: `0x${name}` }
    await store.books.apply(change(claim, row, 'claimed', 'settling', { ...(attempt && { attempt }) }))
    await store.books.apply(
      change(claim, row, 'settling', 'settled', saleOf(samplePurchase(claim, `0x${name}`))),
    )
    await store.books.apply(change(claim, row, 'settled', 'delivered', { purchaseStatus: 'delivered' }))
  }
  /** Says `mined` at each look, or one after the other. */
  const said = async (...mined: readonly [number, ...number[]]) => {
    const heard: object[] = []
    const hear = (facts: object) => void heard.push(facts)
    let looks = 0
    const look = async () => {
      const next = mined[Math.min(looks++, mined.length - 1)]!
      return {
        ...{ address: '0xabc', balance: 1n, paymentsLeft: 1n, inFlight: 0 },
        nonce: { mined: next, pending: next + 5 },
      }
    }
    await tellOfOlderCopy(network, { id, look }, store.books, { ...silentLog, error: hear, warn: hear })
    return heard
  }
  return { store, sell, said, clock }
}

t.test('more transactions on chain than the books know of are said, and as many are not', async (t) => {
  const { sell, said } = books(t)
  t.strictSame(await said(100), [], 'books that know of none say nothing')
  await sell('a', '41')
  await sell('b', '40')
  await sell('of another key', '99', {}, 'evm:eip155:84532:0xdef')
  await sell('of another network', '98', { network: 'eip155:8453' })
  await sell('a plain transfer', null, { scheme: transferScheme })
  t.strictSame(await said(42), [])
  t.strictSame(await said(41), [], 'the last one is on its way')
  t.strictSame(await said(44), [{ network, key: id, transactionsOnChain: 44, lastBooked: 41 }])
  t.strictSame(await said(44, 42), [], 'one wrong count is no older copy')
})

t.test('books whose newest payments have forgotten what was signed say nothing', async (t) => {
  const { store, sell, said, clock } = books(t)
  await sell('owed', '3')
  await sell('done', '9')
  const owed = (await store.books.list({ states: ['delivered'], limit: 9 })).find(
    ({ purchaseId }) => purchaseId === 'purchase-of-owed',
  )!
  await store.books.apply(change(owed, owed.row, 'delivered', 'refund_due', { purchaseStatus: 'refund_due' }))
  t.strictSame(await said(10), [])
  clock.nowMs += 1_000
  t.not(await store.books.forgetSigned(clock.nowMs, 0, 9), 0)
  t.strictSame(await said(10), [], 'of what is owed back the number is kept, and it was not the last')
  await sell('anew', '10')
  t.strictSame(await said(11), [])
  t.match(await said(12), [{ lastBooked: 10 }])
})

t.test('a chain or books that do not answer keep nobody from starting', async (t) => {
  const { store, sell } = books(t)
  await sell('a', '1')
  const heard: object[] = []
  const log = { ...silentLog, warn: (facts: object) => void heard.push(facts) }
  const look = async () => Promise.reject(new Error('no node'))
  await tellOfOlderCopy(network, { id, look }, store.books, log)
  await tellOfOlderCopy(network, { id }, store.books, log)
  t.match(heard, [{ err: /no node/ }])
  t.equal(heard.length, 1)
})
