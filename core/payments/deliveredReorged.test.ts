import t from 'tap'
import { ended, landElsewhere, type Stage, start, won } from '../../test/helpers/core/payments/engine.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { storedResponse } from '../../test/helpers/rows.ts'
import { builtInAssets } from '../domain/asset.ts'
import { land, leaveChain } from './reconciliation.ts'
import { expire } from './rules.ts'

/** A call that was charged first, and has no response yet. */
async function charged() {
  const stage = await start()
  const paid = await won(stage.payments, stage.presented, true)
  await stage.payments.settle(paid, null)
  await stage.payments.record(paid)
  return { ...stage, stage, paid }
}

/** Another process finds on chain that the transfer is gone. */
const goes = async ({ store, row }: Stage) => {
  const record = (await row())!
  const purchase = await store.purchases.find(record.purchaseId)
  t.ok(await store.ledger.apply(leaveChain(record, purchase)))
}

/** And that it is back. */
const comesBack = async ({ store, row }: Stage) => {
  const record = (await row())!
  const { network, asset: address } = record
  const asset = builtInAssets.find((one) => one.network === network && one.address === address)!
  const landed = { transaction: '0xaa', event: '0', block: 2, chargedAtomic: 100_000n }
  t.ok(
    await store.ledger.apply(land(record, { payment: record, landed, asset, reviewTokenHash: 'h', atMs: 1 })),
  )
}

t.test(
  'a call that was charged first and answered is delivered, although its payment had left the chain meanwhile',
  async (t) => {
    const { stage, payments, row, paid } = await charged()
    await goes(stage)
    t.match(await row(), { state: 'reorged', errorReason: 'reorged' })
    payments.deliver(paid, 'delivered', storedResponse)
    await ended(payments, paid)
    t.match(await row(), { state: 'reorged', errorReason: 'reorged_after_delivery' })
    await comesBack(stage)
    t.match(await row(), { state: 'delivered' }, 'and nothing is owed for it')
  },
)

t.test('nor is a kept answer owed back whose buyer had it while the payment was gone', async (t) => {
  const stage = await start()
  const { payments, presented, row } = stage
  const paid = await won(payments, presented)
  stage.settler.settleWith = async () => ({ status: 'pending', transaction: '0xaa', reason: 'slow' })
  await payments.settle(paid, storedResponse)
  payments.deliver(paid, 'unsent')
  await ended(payments, paid)
  await landElsewhere(stage)
  const { row: number, purchaseId } = (await row())!
  await goes(stage)
  payments.deliver({ row: number, purchaseId }, 'delivered')
  await until(async () => (await row())!.errorReason === 'reorged_after_delivery')
  await comesBack(stage)
  t.match(await row(), { state: 'delivered' })
})

t.test('what was not answered is owed when its payment comes back', async (t) => {
  const { stage, payments, row, paid } = await charged()
  await goes(stage)
  payments.deliver(paid, 'seller_failed')
  await ended(payments, paid)
  await comesBack(stage)
  t.match(await row(), { state: 'refund_due' })
})

t.test('an answer that its buyer did not collect stays so when its payment comes back', async (t) => {
  const { stage, payments, row, paid } = await charged()
  payments.deliver(paid, 'not_collected', storedResponse)
  await ended(payments, paid)
  await goes(stage)
  t.match(await row(), { state: 'reorged', hasResponse: true })
  await comesBack(stage)
  t.match(await row(), { state: 'settled', hasResponse: true, errorReason: 'response_not_collected' })
  t.match(expire((await row())!), { to: 'delivered' }, 'and nothing is owed for it after its day')
})

t.test('one that a repeat was handed while its payment left is delivered when it comes back', async (t) => {
  const { stage, payments, row, paid } = await charged()
  payments.deliver(paid, 'not_collected', storedResponse)
  await ended(payments, paid)
  const { row: number, purchaseId } = (await row())!
  await goes(stage)
  payments.deliver({ row: number, purchaseId }, 'delivered')
  await until(async () => (await row())!.errorReason === 'reorged_after_delivery')
  await comesBack(stage)
  t.match(await row(), { state: 'delivered' })
})
