import assert from 'node:assert/strict'
import type { PaymentRecord } from '../../../core/domain/payment.ts'
import type { Signed } from '../buyers.ts'
import { PRICE } from '../buyers.ts'
import type { Run } from '../seller.ts'
import type { World } from '../world.ts'
import { dueFor, isMeteredLink, type RunUse } from './metering.ts'

type UsedRun = Run & { readonly use: RunUse }

/**
 * A call that is sold by its use is charged what its seller said, or the link's rule for a use that is not known: at most what its
 * buyer has authorized, and nothing on chain for nothing. A stream that was sent is charged, unless its process died or its
 * settlement failed, which are the risks that its seller took.
 */
export async function judgeUse(world: World, payments: readonly Signed[]): Promise<void> {
  for (const payment of payments.filter(isMeteredLink)) {
    const record = await world.store.ledger.find(payment.key)
    const runs = world.runs.filter((run): run is UsedRun => run.key === payment.key && run.use !== null)
    const sold = runs.find(({ purchaseId }) => purchaseId === record?.purchaseId)
    await judgeCharge(world, payment, record, sold)
    for (const run of runs) judgeUncharged(world, payment, record, run)
  }
}

async function judgeCharge(
  world: World,
  { key, nonce }: Signed,
  record: PaymentRecord | undefined,
  run: UsedRun | undefined,
): Promise<void> {
  const purchase = record && (await world.store.purchases.find(record.purchaseId))
  const landed = world.chain.view().landed.get(key)
  if (purchase === undefined || record === undefined) return
  const { amountAtomic, authorizedAtomic, status, txHash } = purchase
  assert.equal(authorizedAtomic, BigInt(PRICE), `${nonce}: what its buyer has authorized`)
  assert.ok(amountAtomic <= authorizedAtomic, `${nonce} is charged ${amountAtomic}`)
  assert.ok(run !== undefined, `${nonce} is charged, and its seller has not worked`)
  const due = dueFor(run.use)
  assert.equal(amountAtomic, due === undefined ? undefined : BigInt(due), `${nonce}: what its use costs`)
  if (status !== 'reorged') {
    assert.equal(record.chargedAtomic, amountAtomic, `${nonce}: the payment and its purchase`)
    if (landed !== undefined) assert.equal(BigInt(landed.value), amountAtomic, `${nonce}: what was moved`)
  }
  if (amountAtomic > 0n) {
    if (amountAtomic < authorizedAtomic) world.seen.add('a call is charged less than the most')
    return
  }
  world.seen.add('a call that costs nothing is sold')
  assert.equal(txHash, null, `${nonce} costs nothing, and has a transaction`)
  assert.ok(!world.chain.wasSent(key), `${nonce} costs nothing, and was sent to the chain`)
}

/** Held responses that were not charged have not left the gateway, so {@link judge} judges those. */
function judgeUncharged(world: World, { nonce }: Signed, record: PaymentRecord | undefined, run: UsedRun) {
  const { use, purchaseId, by } = run
  if (!use.isStreamed) return
  const due = dueFor(use)
  if (use.end === 'left') world.seen.add('a buyer leaves a stream')
  if (use.end === 'broken')
    world.seen.add(
      due === undefined
        ? 'a stream breaks off before its use is said'
        : 'a stream breaks off after its use was said',
    )
  if (due === undefined || (record?.purchaseId === purchaseId && record.chargedAtomic !== null)) return
  const isDead = world.wasTakenForDead(by)
  if (isDead) world.seen.add('a stream is charged nothing, because its process died')
  assert.ok(
    isDead || world.unsettled.has(purchaseId),
    `${nonce}: its seller has streamed a response that is charged nothing`,
  )
}
