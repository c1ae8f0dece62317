import t from 'tap'
import { pending, settledIn, stage } from '../../test/helpers/core/payments/recovery.ts'
import { neverSent, type PaymentRecord } from '../domain/payment.ts'
import type { SettleOutcome } from '../ports/chains/settler.ts'
import type { Ledger } from '../ports/store/ledger.ts'
import { stayPending, takeUp } from './reconciliation.ts'
import type { Recovery } from './recovery.ts'
import * as rules from './rules.ts'

const expired: SettleOutcome = {
  status: 'failed_final',
  transaction: '0x1',
  reason: 'expired',
  message: 'It has expired unused.',
}

/** The ledger of a process that is suspended with its decisions until all this has happened. */
function standingStill(
  { ledger }: Pick<ReturnType<typeof stage>, 'ledger'>,
  meanwhile: () => Promise<void>,
  at = 1,
) {
  let writes = 0
  const applyAll: Ledger['applyAll'] = async (changes) => {
    if (++writes === at) await meanwhile()
    return ledger.applyAll(changes)
  }
  return { applyAll }
}

/** Two checks find that a charged payment is not on chain. */
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
    await on.ledger.apply(rules.conclude({ ...held, hasBegun: true }, 'unsent')!)
    await leaveChain(on, other)
    t.match(await on.find(key), { state: 'reorged', errorReason: 'reorged', hasResponse: true })
    on.settle(settledIn)
    on.step(2_000)
    const ledger = standingStill(on, async () => {
      await other.round()
      t.equal(await on.stateOf(key), 'settled')
      await on.ledger.apply(rules.deliver({ ...held, lease: null }))
      await leaveChain(on, other)
      t.match(await on.find(key), { state: 'reorged', errorReason: 'reorged_after_delivery' })
    })
    await slow.recovery(ledger).round()
    on.step(60_000)
    await other.round()
    t.equal(await on.stateOf(key), 'delivered', 'its buyer has the answer: it is never owed')
    t.match(await on.summary(), { purchases: 1, broken: { length: 0 }, unbalanced: { length: 0 } })
  },
)

t.test('what was never sent, and is found mined meanwhile, is not freed', async (t) => {
  const on = stage()
  const { lease } = await on.process('of the call')
  const [slow, other] = [await on.process('slow'), await on.process('other')]
  const key = await on.payment(lease.current, 'pending')
  const held = (): Promise<PaymentRecord> => on.find(key)
  await on.ledger.apply(stayPending(await held(), neverSent))
  on.settle(() => ({ status: 'rejected', reason: neverSent, message: 'its number is used' }))
  on.step(2_000)
  const ledger = standingStill(on, async () => {
    // A reorganization has replaced the bytes with the same nonce by these.
    on.settle(() => ({ ...pending, reason: 'reverted', message: 'mined and reverted' }))
    await other.recovery().round()
    t.match(await held(), { state: 'pending', errorReason: 'reverted' })
  })
  await slow.recovery(ledger).round()
  t.match(await held(), { state: 'pending', errorReason: 'reverted' })
})

t.test(
  'a settler hears of what it found once that is booked, and nothing where somebody else was first',
  async (t) => {
    for (const isFirst of [true, false]) {
      const on = stage()
      const { lease } = await on.process('dead')
      const keys = [await on.payment(lease.current, 'settling'), await on.payment(lease.current, 'pending')]
      const found = new Map<string, SettleOutcome>()
      on.settle((record) => {
        const { key } = record
        found.set(key, key === keys[0] ? settledIn(record) : { ...expired })
        return found.get(key)!
      })
      const received: [string, SettleOutcome][] = []
      for (const settler of on.chains.settlers)
        settler.booked = ({ key }, outcome) => {
          received.push([key, outcome])
          t.equal(found.get(key), outcome, 'the very object')
        }
      on.step(11_000)
      const { recovery } = await on.process('heir')
      const other = (await on.leases.take('process:other', 10_000))!
      const takeBoth = async () => {
        for (const key of isFirst ? [] : keys) await on.ledger.apply(takeUp(await on.find(key), other.id))
      }
      await recovery(standingStill(on, takeBoth, 2)).round()
      t.strictSame(new Set(received.map(([key]) => key)), new Set(isFirst ? keys : []))
      t.equal(received.length, isFirst ? 2 : 0)
    }
  },
)
