import t from 'tap'
import { until } from '../../test/helpers/rawHttp.ts'
import { keptAnswer } from '../../test/helpers/rows.ts'
import { bookElsewhere, ended, start, takeUpElsewhere, won } from './engine.fixture.ts'
import type { Fate } from './payments.ts'

/** A call that was charged and has its answer, on a link that charges after or before the seller works. */
async function charged(settlesFirst: boolean) {
  const stage = await start()
  const { payments, presented } = stage
  const paid = await won(payments, presented, settlesFirst)
  await payments.settle(paid, settlesFirst ? null : keptAnswer)
  await payments.record(paid)
  const end = async (fate: Fate) => {
    payments.deliver(paid, fate, settlesFirst ? keptAnswer : undefined)
    await ended(payments, paid)
  }
  return { ...stage, paid, end }
}

for (const settlesFirst of [false, true]) {
  const when = settlesFirst ? 'before' : 'after'
  t.test(
    `what a call has noted of its answer outlives a crash of the database, settle ${when}`,
    async (t) => {
      const delivered = await charged(settlesFirst)
      await delivered.end('delivered')
      delivered.memory.powerCut()
      t.match(await delivered.row(), { state: 'delivered', hasAnswer: true })

      const kept = await charged(settlesFirst)
      await kept.end('not_collected')
      kept.memory.powerCut()
      t.match(await kept.row(), {
        ...{ state: 'settled', hasAnswer: true, lease: null, errorReason: 'answer_not_collected' },
      })
      kept.payments.deliver(kept.paid, 'delivered')
      await until(async () => (await kept.row())?.state === 'delivered')
      kept.memory.powerCut()
      t.match(await kept.row(), { state: 'delivered' }, 'a repeat that was handed the answer, too')
    },
  )

  t.test(`a database that crashes while the answer is sent forgets no sale, settle ${when}`, async (t) => {
    const { memory, store, row, end } = await charged(settlesFirst)
    memory.powerCut()
    t.match(await row(), { state: settlesFirst ? 'settled' : 'settling' })
    await end('delivered')
    t.match(await row(), { state: 'delivered', hasAnswer: true })
    const check = await store.purchases.ledgerCheck()
    t.match(check, { purchases: 1, broken: { length: 0 }, unbalanced: { length: 0 } })
  })
}

t.test('a sale that another process books after the crash is delivered once it is booked', async (t) => {
  const stage = await charged(false)
  const { memory, row, end } = stage
  memory.powerCut()
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
    stage.memory.powerCut()
    await takeUpElsewhere(stage)
    t.match(await stage.row(), { state: 'settled', hasAnswer: false })
    await stage.end('delivered')
    await until(async () => (await stage.row())?.state === 'delivered')
  },
)
