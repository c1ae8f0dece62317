import type { Signed } from './buyers.ts'
import type { GatewayProcess } from './gatewayProcess.ts'
import type { World } from './world.ts'

/** A seller pays a buyer back, whatever the books say by then: the money first, then the proof of it. */
export async function refund(world: World, process: GatewayProcess, payment: Signed): Promise<void> {
  const { chain, scheduler, store } = world
  const { payments } = process
  if (payments === undefined || process.isDead) return
  try {
    const record = await payments.find(payment.key)
    const purchase = record && (await store.purchases.find(record.purchaseId))
    if (record === undefined || purchase === undefined) return
    if (!['settled', 'delivered', 'refund_due'].includes(record.state)) return
    const transaction = world.payBack(payment)
    chain.topUp(payment.payer, Number(purchase.amountAtomic))
    await scheduler.wait(scheduler.between(0, 3_000))
    const proof = { network: record.network, transaction, paymentKeys: [] }
    const result = await payments.refund(record, purchase, proof)
    world.tell('refund', payment.nonce, result)
  } catch (error) {
    world.tell('refund failed', payment.nonce, String(error))
  }
}
