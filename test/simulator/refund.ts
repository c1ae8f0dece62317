import { refundLeftChain } from '../../core/domain/payment.ts'
import type { Signed } from './buyers.ts'
import type { GatewayProcess } from './gatewayProcess.ts'
import type { World } from './world.ts'

/** In one seed of so many refunds leave the chain. */
const LOST_REFUNDS_EVERY = 7
export const losesRefunds = ({ scheduler }: World): boolean => scheduler.seed % LOST_REFUNDS_EVERY === 5

/** A seller pays a buyer back, regardless of the ledger by then: the money first, then the proof of it. */
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
    if (result === 'refunded' && losesRefunds(world) && scheduler.chance(0.5)) loseSoon(world, transaction)
  } catch (error) {
    world.tell('refund failed', payment.nonce, String(error))
  }
}

/** A transfer back leaves the chain soon, for a while or for good. */
function loseSoon({ scheduler, offChainUntilMs }: World, transaction: string): void {
  const forMs = scheduler.pick([20_000, 450_000, 900_000, Infinity])
  scheduler.at(scheduler.between(0, 200_000), null, () => {
    offChainUntilMs.set(transaction, scheduler.nowMs + forMs)
  })
}

/** Some sellers send another transfer for one that left the chain. */
export async function replaceRefunds(
  world: World,
  process: GatewayProcess,
  payments: readonly Signed[],
): Promise<void> {
  for (const payment of payments) {
    const record = await world.store.ledger.find(payment.key)
    if (record?.state !== 'refund_due' || record.errorReason !== refundLeftChain) continue
    world.seen.add('a refund leaves the chain')
    if (world.scheduler.chance(0.2)) await refund(world, process, payment)
  }
}
