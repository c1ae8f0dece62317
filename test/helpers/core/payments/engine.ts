import { builtInAssets } from '../../../../core/domain/asset.ts'
import { TollgateError } from '../../../../core/errors/error.ts'
import { PaymentEngine } from '../../../../core/payments/engine.ts'
import type { PaidCall, PaidFor, Payments, PresentedPayment } from '../../../../core/payments/payments.ts'
import { land, takeUp } from '../../../../core/payments/reconciliation.ts'
import { type Clock, machineClock } from '../../../../core/ports/clock.ts'
import { silentLog } from '../../../../core/ports/log.ts'
import type { Ledger, PaymentChange } from '../../../../core/ports/store/ledger.ts'
import type { DataStore } from '../../../../core/ports/store/store.ts'
import { until } from '../../rawHttp.ts'
import { createScriptedSettler, testAsset, testNetwork, testPayTo } from '../../settler.ts'
import { createTestDatabase, openTestStore } from '../../store/testStore.ts'

/** The key of the one payment of a stage. */
export const key = 'ab'.repeat(32)

/** What a store says that is not there. */
export const away = () => new TollgateError('store_unavailable')

/** An engine of one process over a store that others may share. */
export async function start({
  database = createTestDatabase(),
  storeClock = machineClock as Clock,
  open = (clock: Clock): DataStore | Promise<DataStore> => openTestStore({ database, clock, storeClock }),
  name = 'one',
  adapt = (ledger: Ledger): Ledger => ledger,
} = {}) {
  let nowMs = 1_800_000_000_000
  const clock = { now: () => nowMs }
  const store = await open(clock)
  const settler = createScriptedSettler()
  const lease = { isHeld: true, lapses: 0, current: (await store.leases.take(`process:${name}`, 10_000))! }
  const ledger = adapt(store.ledger)
  const assets = builtInAssets.filter((asset) => asset.network === testNetwork)
  const payments = new PaymentEngine({
    ...{ ledger, chains: { assets }, lease, clock, log: silentLog },
    notes: { tokenHash: (id) => `hash of ${id}` },
  })
  const presented: PresentedPayment = {
    payload: { x402Version: 2, scheme: 'exact', network: testNetwork, payload: {} },
    terms: {
      ...{ scheme: 'exact', network: testNetwork, amount: '100000', asset: testAsset, payTo: testPayTo },
      ...{ maxTimeoutSeconds: 300, extra: {} },
    },
    identity: {
      ...{ key, network: testNetwork, asset: testAsset, payer: '0x2', nonce: 'n', payTo: testPayTo },
      ...{ amountAtomic: 100_000n, validBeforeMs: nowMs + 300_000 },
    },
    ...{ settler, unclaimable: null },
  }
  return {
    ...{ database, store, settler, lease, payments, presented },
    row: () => store.ledger.find(key),
    turnClock: (ms: number) => {
      nowMs += ms
    },
  }
}

export type Stage = Awaited<ReturnType<typeof start>>

/** What is bought. */
export const call = (settlesFirst = false): PaidFor => ({
  ...{ linkId: 'link', sessionId: null, storeId: 'store', requestHash: 'hash', settlesFirst },
})

/** Claims the payment. @throws if it is already claimed */
export async function won(
  payments: Payments,
  presented: PresentedPayment,
  settlesFirst = false,
): Promise<PaidCall> {
  const claimed = await payments.claim(presented, call(settlesFirst))
  if (!('won' in claimed)) throw new Error(`Expected to win, it is ${claimed.lost.state}.`)
  return claimed.won
}

/** Resolves once nothing of the call is under way. */
export const ended = (payments: Payments, { row }: PaidCall) => until(async () => !payments.isUnderWay(row))

/** Another process takes up a payment whose own process stands still, or was without its store for too long. */
export async function takeUpElsewhere({ store, row }: Stage): Promise<void> {
  const other = (await store.leases.take('process:other', 10_000))!
  await store.ledger.apply(takeUp((await row())!, other.id))
}

/** The recovery of the other process finds what it has taken up on chain, and books it. */
export async function bookElsewhere({ store, row }: Stage): Promise<PaymentChange> {
  const landed = land((await row())!, {
    payment: (await row())!,
    landed: { transaction: '0xaa', event: '0', block: 1, chargedAtomic: 100_000n },
    ...{ asset: builtInAssets.find((one) => one.network === testNetwork)!, reviewTokenHash: 'h', atMs: 1 },
  })
  await store.ledger.apply(landed)
  return landed
}

export async function landElsewhere(stage: Stage): Promise<PaymentChange> {
  await takeUpElsewhere(stage)
  return bookElsewhere(stage)
}
