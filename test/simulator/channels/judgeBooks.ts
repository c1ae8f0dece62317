import assert from 'node:assert/strict'
import { builtInAssets } from '../../../core/domain/asset.ts'
import { formatAmount } from '../../../core/domain/money.ts'
import { DAY_MS } from '../../../core/ports/store/stats.ts'
import type { Signed } from '../buyers.ts'
import { Chain } from '../chain.ts'
import type { World } from '../world.ts'
import { signatureOf } from './channelChain.ts'
import type { ChannelScene, CommittedCharge, Payer } from './scene.ts'

/** More than the channels of a seed, and their minutes. */
const MANY = 10_000
/** Longer than the minutes of any charge, by a clock that was ahead, in ms. */
const LATER_MS = 14_400_000
/** A period with all of a seed's time. */
const ALL_TIME = { fromMs: Chain.timeOf(0) - 10 * DAY_MS, toMs: Chain.timeOf(0) + 100 * DAY_MS }
const DECIMALS = 6

const sumOf = (charges: readonly CommittedCharge[]): bigint =>
  charges.reduce((sum, { amountAtomic }) => sum + amountAtomic, 0n)

/**
 * Every charge is booked once: in the sums of its channel, the totals of the store, the statistics and the webhook events. What a
 * channel was charged is what its payer has signed last.
 */
export async function judgeBooks(world: World, payments: readonly Signed[]): Promise<void> {
  const { channels: scene, store } = world
  if (scene === undefined) return
  for (const { channel, baseAtomic, summedAtomic } of await store.channelBooks.audit(null, MANY)) {
    const { id, charged, totalClaimed, signature, config } = channel
    const { name }: Payer = scene.payers.find((payer) => payer.id === id)!
    const sold = sumOf(scene.charges.filter((charge) => charge.id === id))
    assert.equal(summedAtomic, sold, `${name}: the sums of its calls`)
    assert.equal(
      baseAtomic + summedAtomic,
      charged,
      `${name}: what it was charged, and the sums of its calls`,
    )
    assert.ok(totalClaimed <= charged, `${name}: ${totalClaimed} is claimed, and ${charged} was charged`)
    if (charged > totalClaimed)
      assert.equal(signature, signatureOf(config.payerAuthorizer, id, charged), `${name}: its voucher`)
  }
  assert.deepEqual(await store.channelBooks.wrongTotals(), [])
  await judgeStats(world, scene, payments)
  await judgeEvents(world, scene)
}

/** The statistics have the calls of channels beside the purchases. */
async function judgeStats(
  { store, signedForSessions, sent }: World,
  scene: ChannelScene,
  calls: readonly Signed[],
) {
  let [purchases, revenueAtomic] = [scene.charges.length, sumOf(scene.charges)]
  const exact = sent.filter(({ isExact }) => isExact)
  for (const { key } of [...calls, ...signedForSessions, ...exact]) {
    const record = await store.ledger.find(key)
    const purchase = record && (await store.purchases.find(record.purchaseId))
    if (purchase === undefined || !['settled', 'delivered'].includes(purchase.status)) continue
    purchases++
    revenueAtomic += purchase.amountAtomic
  }
  const totals = await store.stats.totals(store.served[0]!.storeId, ALL_TIME)
  assert.deepEqual(
    { purchases: totals.purchases, revenueE18: totals.revenueE18 },
    { purchases, revenueE18: revenueAtomic * 10n ** BigInt(18 - DECIMALS) },
    'the statistics have every sale once',
  )
}

/** The webhook events have every charge once, as soon as its minute is over. */
async function judgeEvents({ store, scheduler }: World, { charges }: ChannelScene) {
  const { nowMs } = scheduler
  scheduler.nowMs += LATER_MS
  await store.channelBooks.addEvents(builtInAssets, MANY)
  scheduler.nowMs = nowMs
  const events = (await store.webhooks.awaitingFanOut(MANY)).filter(({ kind }) => kind === 'channel.charged')
  const told = new Map<string, { calls: number; amount: number }>()
  for (const { detail } of events) {
    const { channelId, calls, amount } = JSON.parse(detail!)
    const before = told.get(channelId) ?? { calls: 0, amount: 0 }
    told.set(channelId, { calls: before.calls + calls, amount: before.amount + Number(amount) })
  }
  const byChannel = Map.groupBy(charges, ({ id }) => id)
  for (const [id, of] of byChannel) {
    const { calls, amount } = told.get(id) ?? { calls: 0, amount: 0 }
    assert.deepEqual(
      { calls, amount: amount.toFixed(2) },
      { calls: of.length, amount: formatAmount(sumOf(of), DECIMALS, 2) },
      'the webhook events have every charge once',
    )
  }
  assert.equal(told.size, byChannel.size, 'webhook events are of channels that were charged')
}
