import t from 'tap'
import { bookElsewhere, ended, start, takeUpElsewhere, won } from '../../test/helpers/core/payments/engine.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { storedResponse } from '../../test/helpers/rows.ts'
import { type CrashingStore, openCrashingStore } from '../../test/helpers/store/crashingStore.ts'
import { type Clock, machineClock } from '../ports/clock.ts'
import type { DeliveryOutcome } from './payments.ts'

/** A call that was charged and has its response, on a link that charges after or before the seller works. */
async function charged(settlesFirst: boolean) {
  let crashing: CrashingStore | undefined
  const open = async (clock: Clock) => (crashing = await openCrashingStore(clock, machineClock))
  const stage = await start({ open })
  const { payments, presented } = stage
  const paid = await won(payments, presented, settlesFirst)
  await payments.settle(paid, settlesFirst ? null : storedResponse)
  await payments.record(paid)
  const end = async (outcome: DeliveryOutcome) => {
    payments.deliver(paid, outcome, settlesFirst ? storedResponse : undefined)
    await ended(payments, paid)
  }
  return { ...stage, paid, end, powerCut: () => crashing!.powerCut() }
}

for (const settlesFirst of [false, true]) {
  const when = settlesFirst ? 'before' : 'after'
  t.test(
    `what a call has noted of its answer outlives a crash of the database, settle ${when}`,
    async (t) => {
      const delivered = await charged(settlesFirst)
      await delivered.end('delivered')
      delivered.powerCut()
      t.match(await delivered.row(), { state: 'delivered', hasResponse: true })

      const kept = await charged(settlesFirst)
      await kept.end('not_collected')
      kept.powerCut()
      t.match(await kept.row(), {
        state: 'settled',
        hasResponse: true,
        lease: null,
        errorReason: 'response_not_collected',
      })
      kept.payments.deliver(kept.paid, 'delivered')
      await until(async () => (await kept.row())?.state === 'delivered')
      kept.powerCut()
      t.match(await kept.row(), { state: 'delivered' }, 'a repeat that was handed the answer, too')
    },
  )

  t.test(`a database that crashes while the answer is sent forgets no sale, settle ${when}`, async (t) => {
    const { powerCut, store, row, end } = await charged(settlesFirst)
    powerCut()
    t.match(await row(), { state: settlesFirst ? 'settled' : 'settling' })
    await end('delivered')
    t.match(await row(), { state: 'delivered', hasResponse: true })
    const check = await store.purchases.ledgerCheck()
    t.match(check, { purchases: 1, broken: { length: 0 }, unbalanced: { length: 0 } })
  })
}

t.test('a sale that another process books after the crash is delivered once it is booked', async (t) => {
  const stage = await charged(false)
  const { powerCut, row, end } = stage
  powerCut()
  await takeUpElsewhere(stage)
  await end('delivered')
  t.match(await row(), { state: 'pending' })
  await bookElsewhere(stage)
  t.match(await row(), { state: 'settled' })
  await until(async () => (await row())?.state === 'delivered')
})

t.test(
  'a sale that another process has taken up without its answer is delivered, and not owed',
  async (t) => {
    const stage = await charged(true)
    stage.powerCut()
    await takeUpElsewhere(stage)
    t.match(await stage.row(), { state: 'settled', hasResponse: false })
    await stage.end('delivered')
    await until(async () => (await stage.row())?.state === 'delivered')
  },
)
