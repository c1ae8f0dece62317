import t from 'tap'
import { call, ended, start, won } from '../../test/helpers/core/payments/engine.ts'
import { storedResponse } from '../../test/helpers/rows.ts'
import { testNetwork } from '../../test/helpers/settler.ts'
import { builtInAssets } from '../domain/asset.ts'
import { silentLog as log } from '../ports/log.ts'
import type { Ledger } from '../ports/store/ledger.ts'
import type { PaidCall } from './payments.ts'
import { createRecovery } from './recovery.ts'

/** A call that is charged first and has no response, and a recovery of the same process, over a ledger that a test may adapt. */
async function charged() {
  let storeMs = 1_000
  const stage = await start({ storeClock: { now: () => storeMs } })
  const { store, lease, payments, presented, settler } = stage
  await store.leases.renew(lease.current, 100_000)
  const paid = await won(payments, presented, true)
  await payments.settle(paid, null)
  await payments.record(paid)
  storeMs += 30_000
  const recovery = (over: Partial<Ledger>) =>
    createRecovery({
      ...store,
      payments,
      lease,
      log,
      ledger: { ...store.ledger, ...over },
      chains: {
        assets: builtInAssets.filter(({ network }) => network === testNetwork),
        settlers: [settler],
        settler: () => settler,
      },
      refundProofs: { prove: async () => ({ status: 'not_configured' }) },
      notes: { tokenHash: (id: string) => `hash of ${id}` },
      clock: { now: () => 1_800_000_030_000 },
    })
  /** It ends before its seller's API is called, so that its buyer may come back for it. */
  const leave = async () => {
    payments.deliver(paid, 'not_asked')
    await ended(payments, paid)
  }
  return { ...stage, recovery, leave }
}

t.test(
  'a row that is withheld is taken up by nobody, and withheld by nobody else, until it is let go',
  async (t) => {
    const { payments, presented, row, leave } = await charged()
    const { row: number } = (await row())!
    const retryPayment = async () => payments.resume((await row())!, presented, call(true))
    t.equal(payments.withhold(number), undefined, 'a call works on it')
    await leave()
    const stopWithholding = payments.withhold(number)!
    t.equal(payments.withhold(number), undefined)
    t.equal(await retryPayment(), undefined)
    t.match(await row(), { state: 'refund_due', errorReason: 'landed_late' })
    stopWithholding()
    const resumed = (await retryPayment())!
    payments.deliver(resumed, 'delivered', storedResponse)
    await ended(payments, resumed)
    t.match(await row(), { state: 'delivered' })
  },
)

t.test(
  'what its buyer takes up while recovery decides that it is owed is answered, and not owed',
  async (t) => {
    const { store, payments, presented, row, recovery, leave } = await charged()
    let resumed: PaidCall | undefined
    const retryPayment = async () => {
      resumed = await payments.resume((await row())!, presented, call(true))
    }
    let isRead = false
    const due: Ledger['due'] = async (filter) => {
      const records = await store.ledger.due(filter)
      if (records.some(({ state }) => state === 'settled') && !isRead) {
        isRead = true
        await leave()
        t.match(await row(), { state: 'refund_due', errorReason: 'landed_late' })
      }
      return records
    }
    let isDecided = false
    const applyAll: Ledger['applyAll'] = async (changes) => {
      if (isRead && !isDecided) {
        isDecided = true
        await retryPayment()
      }
      return store.ledger.applyAll(changes)
    }
    await recovery({ due, applyAll }).round()
    t.ok(isDecided)
    // A buyer who was too early comes again.
    if (resumed === undefined) await retryPayment()
    t.ok(resumed)
    t.match(await row(), { state: 'settled', errorReason: null }, 'the seller is being asked')
    payments.deliver(resumed!, 'delivered', storedResponse)
    await ended(payments, resumed!)
    t.match(await row(), { state: 'delivered' })
  },
)
