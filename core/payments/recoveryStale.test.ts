import t from 'tap'
import { neverSent, type PaymentRecord } from '../domain/payment.ts'
import type { Books } from '../ports/store/books.ts'
import { pending, settledIn, stage } from './recovery.fixture.ts'
import type { Recovery } from './recovery.ts'
import * as rules from './rules.ts'

/** Books of a process that stands still with its decisions until all this has happened. */
function standingStill({ books }: Pick<ReturnType<typeof stage>, 'books'>, meanwhile: () => Promise<void>) {
  let happens: (() => Promise<void>) | undefined = meanwhile
  const applyAll: Books['applyAll'] = async (changes) => {
    const happen = happens
    happens = undefined
    await happen?.()
    return books.applyAll(changes)
  }
  return { applyAll }
}

/** Two looks find a payment that was charged not on chain. */
async function leaveChain(on: ReturnType<typeof stage>, recovery: Recovery): Promise<void> {
  on.see(() => 'no')
  on.step(30_000)
  await recovery.round()
  on.step(5_000)
  await recovery.round()
  on.see(() => 'yes')
}

t.test(
  'what has come back, was delivered and left the chain anew meanwhile is booked as delivered',
  async (t) => {
    const on = stage()
    const { lease } = await on.process('of the call')
    const [slow, other] = [await on.process('slow'), (await on.process('other')).recovery()]
    const key = await on.payment(lease.current, 'settled')
    const held = { ...(await on.find(key)), lease: lease.current.id }
    await on.books.apply(rules.conclude({ ...held, hasBegun: true }, 'unsent')!)
    await leaveChain(on, other)
    t.match(await on.find(key), { state: 'reorged', errorReason: 'reorged', hasAnswer: true })
    on.settle(settledIn)
    on.step(2_000)
    const books = standingStill(on, async () => {
      await other.round()
      t.equal(await on.stateOf(key), 'settled')
      await on.books.apply(rules.deliver({ ...held, lease: null }))
      await leaveChain(on, other)
      t.match(await on.find(key), { state: 'reorged', errorReason: 'reorged_after_delivery' })
    })
    await slow.recovery(books).round()
    on.step(60_000)
    await other.round()
    t.equal(await on.stateOf(key), 'delivered', 'its buyer has the answer: it is never owed')
    t.match(await on.ledger(), { purchases: 1, broken: { length: 0 }, unbalanced: { length: 0 } })
  },
)

t.test('what was never sent, and is found mined meanwhile, is not freed', async (t) => {
  const on = stage()
  const { lease } = await on.process('of the call')
  const [slow, other] = [await on.process('slow'), await on.process('other')]
  const key = await on.payment(lease.current, 'pending')
  const held = (): Promise<PaymentRecord> => on.find(key)
  await on.books.apply(rules.stayPending(await held(), neverSent))
  on.settle(() => ({ status: 'rejected', reason: neverSent, message: 'its number is used' }))
  on.step(2_000)
  const books = standingStill(on, async () => {
    // A reorganisation has put these bytes in the place of those that had their number.
    on.settle(() => ({ ...pending, reason: 'reverted', message: 'mined and reverted' }))
    await other.recovery().round()
    t.match(await held(), { state: 'pending', errorReason: 'reverted' })
  })
  await slow.recovery(books).round()
  t.match(await held(), { state: 'pending', errorReason: 'reverted' })
})
