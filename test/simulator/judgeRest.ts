import assert from 'node:assert/strict'
import { readPayment } from '../../core/x402/header.ts'
import { testAsset, testNetwork, testPayTo } from '../helpers/settler.ts'
import { PRICE, type Signed, sign } from './buyers.ts'
import { Chain } from './chain.ts'
import type { GatewayProcess } from './gatewayProcess.ts'
import type { World } from './world.ts'

/** The time without any query, in ms. */
const REST_MS = 60_000
/** Longer than gateways wait after another party has signed with their key, in ms. */
const LONGEST_WAIT_MS = 120_000
/** Longer than they wait for a nonce that an unknown party has used and a reorganization has freed, in ms. */
const LONGEST_STRANDED_MS = 1_020_000

const terms = {
  scheme: 'exact',
  network: testNetwork,
  asset: testAsset,
  payTo: testPayTo,
  amount: String(PRICE),
  maxTimeoutSeconds: 300,
  extra: {},
}

/** Once everything is concluded, a later check finds nothing to do: no endless loop, however slow. */
export async function judgeRest(world: World): Promise<void> {
  const { scheduler, node, ways, processes, isShared } = world
  // What was said last about a shared key, such as a number that was left over, is done first.
  if (isShared) await scheduler.until(scheduler.nowMs + LONGEST_WAIT_MS)
  const stops = processes.map((process) => process.startLoops())
  const endMs = scheduler.nowMs + LONGEST_STRANDED_MS
  let before: readonly [asked: number, written: number]
  do {
    before = [node.requests, ways.written]
    await scheduler.until(scheduler.nowMs + REST_MS)
  } while ((node.requests > before[0] || ways.written > before[1]) && scheduler.nowMs < endMs)
  for (const stop of stops) stop()
  assert.equal(ways.written - before[1], 0, 'nothing is open, and something is written')
  assert.equal(node.requests - before[0], 0, 'nothing is open, and the chain is asked')
}

/**
 * No budget stays reserved without a payment: a buyer with exactly the price left can pay it, at every gateway. What was set apart for a payment
 * that is over, of a process that died, or that was asked for twice, would be in the way.
 */
export async function judgeHolds(world: World, payments: readonly Signed[]): Promise<void> {
  const { chain, scheduler } = world
  // What was only verified is given up with its own time, if not before.
  const lastMs = Math.max(...payments.map(({ validBeforeMs }) => validBeforeMs)) - Chain.timeOf(0)
  await scheduler.until(lastMs + 1_000)
  const payers = new Map(payments.map((payment) => [payment.payer, payment]))
  for (const process of world.processes) Object.assign(process, { clockAheadMs: 0, clockDrift: 0 })
  for (const { payer, nonce, buyer } of payers.values()) {
    chain.topUp(payer, PRICE - chain.view().balanceOf(payer))
    for (const process of world.processes) {
      const refused = await whyRefused(world, process, `${nonce} again at ${process.name}`, buyer)
      // A buyer that has called without money a hundred times in ten minutes is refused for that, and not for what is reserved.
      if (refused === 'payer_failure_budget_exhausted') continue
      assert.equal(refused, undefined, `${nonce}: its buyer has the price, and can't pay at ${process.name}`)
    }
  }
}

/** @returns why a new payment of this buyer can't be settled, once there has been time for what passes by itself */
async function whyRefused(
  world: World,
  process: GatewayProcess,
  nonce: string,
  buyer: string,
): Promise<string | undefined> {
  const { scheduler, store } = world
  const endMs = scheduler.nowMs + LONGEST_WAIT_MS
  const settler = process.settler!
  const { storeId } = store.served[0]!
  for (;;) {
    const read = readPayment(sign(world, nonce, buyer, { link: -1, validForMs: 300_000 }).header)
    assert.ok(read.ok)
    let outcome: { readonly why?: string; readonly isTransient?: boolean } | undefined
    const verify = async () => {
      const checked = await settler.check(read.payment, terms)
      if (!checked.ok) return checked
      return settler.verify(read.payment, terms, checked.identity, { storeId })
    }
    void scheduler.as(process, () =>
      verify().then(
        (verified) => {
          if (verified.ok) verified.hold.release()
          outcome = verified.ok ? {} : { why: verified.reason, isTransient: verified.transient === true }
        },
        (error: unknown) => (outcome = { why: String(error) }),
      ),
    )
    await scheduler.until(scheduler.nowMs + 30_000, () => outcome !== undefined)
    // What is returned is on its way to its holder.
    await scheduler.until(scheduler.nowMs + 2_000)
    const { why, isTransient = false } = outcome ?? { why: 'no answer' }
    if (!isTransient || scheduler.nowMs > endMs) return why
    await scheduler.until(scheduler.nowMs + 5_000)
  }
}
