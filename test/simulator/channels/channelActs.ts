import assert from 'node:assert/strict'
import type { World } from '../world.ts'
import { smaller, stateOf } from './contract.ts'
import { CHANNEL_PRICE, callByChannel, openPayer, sendChannel, signChannel } from './payers.ts'
import type { ChannelScene, Payer } from './scene.ts'

type Act = [weight: number, act: (world: World) => void]

/** How long claims may take once nothing fails and small amounts are old enough, in ms. */
const CLAIMED_WITHIN_MS = 120_000
/** Later than any claim is put off, by a clock that may have been ahead, in ms. */
const LATER_MS = 10_800_000

/** Payers open channels, and call one call after the other until all is well. */
export function openChannels(world: World): void {
  const { scheduler, channels: scene } = world
  if (scene === undefined) return
  for (let i = scheduler.between(1, 3); i > 0; i--) {
    const payer = openPayer(world, scene)
    void scheduler.as(null, () => callOn(world, scene, payer))
  }
}

async function callOn(world: World, scene: ChannelScene, payer: Payer): Promise<void> {
  const { scheduler } = world
  while (world.isFaulty) {
    await callByChannel(world, scene, payer, `/${++payer.calls}`)
    await scheduler.wait(scheduler.between(0, 2_000))
  }
  payer.current = undefined
}

const onOne =
  (act: (world: World, scene: ChannelScene, payer: Payer) => void) =>
  (world: World): void => {
    const scene = world.channels!
    act(world, scene, world.scheduler.pick(scene.payers))
  }

/** What hostile payers do, beside what happens to all. */
export const channelActs: readonly Act[] = [
  // The same call at the same time, perhaps at another gateway.
  [
    20,
    onOne((world, scene, payer) => {
      const { current } = payer
      if (current !== undefined) void sendChannel(world, scene, payer, current.payment, current.path)
    }),
  ],
  // The same voucher for another call.
  [
    8,
    onOne((world, scene, payer) => {
      const { current } = payer
      if (current !== undefined) void sendChannel(world, scene, payer, current.payment, '/other')
    }),
  ],
  // A voucher that is old, that is charged already, or that skips calls.
  [
    8,
    onOne((world, scene, payer) => {
      const total = payer.charged + CHANNEL_PRICE * BigInt(world.scheduler.pick([-1, 0, 2, 3]))
      if (total > 0n) void sendChannel(world, scene, payer, signChannel(world, payer, total), '/skipped')
    }),
  ],
  [4, onOne(withdraw)],
  [
    5,
    onOne((world, scene, payer) => {
      void sendChannel(world, scene, payer, signChannel(world, payer, payer.charged, 'refund'), '')
    }),
  ],
]

/** A payer asks for its money back without the gateway, and takes it as soon as the contract allows. */
function withdraw(
  world: World,
  { contract, withdrawDelaySeconds: delaySeconds }: ChannelScene,
  { id }: Payer,
) {
  const { scheduler } = world
  const { balance, totalClaimed } = stateOf(contract.view(), id)
  const amount = (balance - totalClaimed) / BigInt(scheduler.pick([1, 1, 2]))
  if (amount === 0n) return
  world.tell('withdraw', id.slice(0, 8), amount)
  contract.send([{ type: 'withdraw', id, amount }])
  for (const lateMs of [2_000, 6_000, 20_000])
    scheduler.at(1_000 * delaySeconds + lateMs, null, () =>
      contract.send([{ type: 'finalize', id, delaySeconds }]),
    )
}

/** Most payers make a last call, and everything that was charged is claimed. Then the processes give their channels back. */
export async function finishChannels(world: World): Promise<void> {
  const { scheduler, channels: scene, processes } = world
  if (scene === undefined) return
  // A deposit is refused by a clock at which its authorization is over.
  for (const process of processes) Object.assign(process, { clockAheadMs: 0, clockDrift: 0 })
  for (const payer of scene.payers) {
    await scheduler.until(scheduler.nowMs + 120_000, () => payer.current === undefined)
    assert.equal(payer.current, undefined, `${payer.name} waits for its call`)
    // Some never come back.
    if (scheduler.chance(0.2)) continue
    let isAnswered: boolean | undefined
    void scheduler.as(null, async () => {
      isAnswered = await callByChannel(world, scene, payer, '/last')
    })
    await scheduler.until(scheduler.nowMs + 120_000, () => isAnswered !== undefined)
    assert.equal(world.misuse, undefined)
    assert.ok(isAnswered, `${payer.name} cannot call, although all is well`)
  }
  const isClaimed = () =>
    scene.payers.every(({ id }) => {
      const { balance, totalClaimed } = stateOf(scene.contract.view(), id)
      const charged = scene.chargedOf(id)
      return totalClaimed === smaller(charged, balance)
    })
  for (const process of processes) process.clockAheadMs = LATER_MS
  // A process that stood still may sell an early request only now.
  for (let round = 0; round < 3 && (round === 0 || !isClaimed()); round++) {
    await scheduler.until(scheduler.nowMs + CLAIMED_WITHIN_MS, isClaimed)
    // The database gets what the chain has.
    await scheduler.until(scheduler.nowMs + 10_000)
  }
  for (const process of processes) process.clockAheadMs = 0
  for (const process of processes) {
    let isClosed = false
    void scheduler.as(process, () => process.closeChannels()).then(() => (isClosed = true))
    await scheduler.until(scheduler.nowMs + 60_000, () => isClosed)
    assert.ok(isClosed, `${process.name} gives its channels back`)
  }
}
