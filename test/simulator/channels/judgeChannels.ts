import assert from 'node:assert/strict'
import type { ChannelId } from '../../../core/domain/channel.ts'
import type { OwnedChannel } from '../../../core/ports/store/channels.ts'
import type { Run } from '../seller.ts'
import type { World } from '../world.ts'
import { stateOf } from './contract.ts'
import type { ChannelScene, CommittedCharge, Payer, TakenChannel } from './scene.ts'

/** How much longer than a third of the withdrawal delay a read may be old, in ms: a process may stand still for a while. */
const READ_SLACK_MS = 12_000

/**
 * Claimed is at most charged, and charged is at most signed and what the contract had. Every response was charged once, and every
 * charge is for a response of the seller. In the end everything is claimed, unless a withdrawal or a reorganization has emptied the
 * channel.
 */
export async function judgeChannels(world: World): Promise<void> {
  const { channels: scene, store } = world
  if (scene === undefined) return
  let [calls, charged, claimed] = [0, 0n, 0n]
  for (const payer of scene.payers) {
    const charges = scene.charges.filter(({ id }) => id === payer.id)
    calls += charges.length
    for (const { amountAtomic } of charges) charged += amountAtomic
    claimed += await judgeTotals(world, scene, payer, charges)
    judgeSales(world, scene, payer, charges)
    judgeRuns(world, scene, payer, charges)
    judgeResponses(scene, payer, charges)
  }
  const earned = await store.channels.earnings(store.served[0]!.storeId)
  const sum = { calls: 0, charged: 0n, claimed: 0n }
  for (const one of earned) {
    sum.calls += one.calls
    sum.charged += one.chargedAtomic
    sum.claimed += one.claimedAtomic
  }
  assert.deepEqual(sum, { calls, charged, claimed }, 'the sums are those of the channels')
}

/** @returns what the database has as claimed */
async function judgeTotals(
  world: World,
  scene: ChannelScene,
  { id, name, signed }: Payer,
  charges: readonly CommittedCharge[],
): Promise<bigint> {
  const { contract, claims } = scene
  const { balance, totalClaimed } = stateOf(contract.view(), id)
  const taken = await rowOf(world, id)
  if (taken === undefined) {
    assert.equal(charges.length, 0, `${name} was charged, and has no channel`)
    return 0n
  }
  const { channel } = taken
  const total = scene.chargedOf(id)
  assert.equal(channel.charged, total, `${name}: what its channel was charged`)
  let before = 0n
  for (const charge of charges) {
    assert.equal(charge.before, before, `${name}: each charge follows the one before`)
    before += charge.amountAtomic
    assert.ok(signed.has(before), `${name} was charged ${before}, and has not signed it`)
  }
  assert.ok(totalClaimed <= total, `${name}: ${totalClaimed} is claimed, and ${total} was charged`)
  for (const claim of claims.filter((one) => one.id === id)) {
    const then = charges.findLast(({ atMs }) => atMs <= claim.atMs)
    const chargedThen = then === undefined ? 0n : then.before + then.amountAtomic
    assert.ok(
      claim.total <= chargedThen,
      `${name}: a claim of ${claim.total}, when ${chargedThen} was charged`,
    )
  }
  assert.equal(channel.totalClaimed, totalClaimed, `${name}: the database has what the contract has`)
  if (totalClaimed < total) {
    const isEmptied = balance < total && (contract.hasLostDeposit || contract.withdrawn.has(id))
    assert.ok(isEmptied, `${name}: ${total} was charged, and ${totalClaimed} is claimed of ${balance}`)
  }
  return channel.totalClaimed
}

/** A channel with a refund in progress is kept by its process. */
async function rowOf({ store, processes }: World, id: ChannelId): Promise<OwnedChannel | undefined> {
  for (const { lease } of processes) {
    const taken = await store.channels.take(id, lease!.current.id)
    if (taken === undefined || 'channel' in taken) return taken
  }
  throw new Error(`${id} belongs to a process that is not there`)
}

/**
 * A process sells only what the contract had for it when the channel's owner last read it, and does not sell for long without a read.
 * A process that hands a channel over tells what it has read. What the next owner has read before it took the row, for a claim, may
 * be missing in the row if the database was slow.
 */
function judgeSales(
  world: World,
  { reads, taken, withdrawDelaySeconds }: ChannelScene,
  { id, name }: Payer,
  charges: readonly CommittedCharge[],
): void {
  const mayBeOldMs = (1_000 * withdrawDelaySeconds) / 3 + READ_SLACK_MS
  for (const charge of charges) {
    const total = charge.before + charge.amountAtomic
    const run = runOf(world, charge)
    if (run === undefined || world.wasTakenForDead(charge.by)) continue
    const ended = reads.filter((read) => read.id === id && read.endedAtMs <= run.startedAtMs)
    const isTake = ({ by, atMs, ...one }: TakenChannel) =>
      one.id === id && by === charge.by && atMs <= run.startedAtMs
    const takenAtMs = taken.findLast(isTake)?.atMs ?? 0
    const own = ended.findLast(({ by, endedAtMs }) => by === charge.by && endedAtMs >= takenAtMs)
    const last = own ?? ended.findLast(({ by }) => by !== charge.by)
    const lastMs = last?.sinceMs ?? Number.NEGATIVE_INFINITY
    // Of reads at the same time either may count.
    const known = ended.filter(({ endedAtMs }) => endedAtMs >= lastMs)
    assert.ok(known.length > 0, `${name}: ${total} was sold without a look at the contract`)
    const enough = known.filter(({ maxTotal }) => total <= maxTotal)
    assert.ok(enough.length > 0, `${name}: ${total} was sold, when the contract had less for it`)
    const isFresh = enough.some(({ sinceMs }) => run.startedAtMs - sinceMs <= mayBeOldMs)
    assert.ok(isFresh, `${name}: ${total} was sold long after a look`)
  }
}

/** The run of the seller for which a charge was made. */
const runOf = (world: World, { id, before, amountAtomic, by, atMs }: CommittedCharge): Run | undefined =>
  world.runs.findLast(
    (run) =>
      run.by === by &&
      run.isGood &&
      run.key === channelRunKey(id, before + amountAtomic) &&
      run.endedAtMs <= atMs,
  )

export const channelRunKey = (id: string, total: bigint): string => `${id}:${total}`

/**
 * Each charge has a run of the seller, and each run that was good has a charge, unless its process was taken for dead or had no
 * database. Of those, a channel loses one at most for each process.
 */
function judgeRuns(
  world: World,
  { requests }: ChannelScene,
  { id, name }: Payer,
  charges: readonly CommittedCharge[],
): void {
  const charged = new Set<Run>()
  for (const charge of charges) {
    const run = runOf(world, charge)
    assert.ok(run !== undefined, `${name} was charged ${charge.before + charge.amountAtomic} for nothing`)
    charged.add(run)
  }
  const lost = new Set<Run['by']>()
  for (const run of world.runs) {
    if (!run.key.startsWith(`${id}:`) || !run.isGood || charged.has(run)) continue
    const { errorCode } = requests.find(({ transport }) => transport === run.transport)!.x
    if (errorCode === 'store_unavailable') continue
    assert.ok(world.wasTakenForDead(run.by), `${name}: its seller has worked for nothing: ${errorCode}`)
    // Another process has taken the channel over while this one stood still.
    if (errorCode !== null) continue
    world.seen.add('a response of a channel is lost with its process')
    assert.ok(!lost.has(run.by), `${name}: a process has lost more than the call in flight`)
    lost.add(run.by)
  }
}

/** A response is one charge's, and one call is charged once, unless its voucher was claimed before the call was repeated. */
function judgeResponses(
  { requests, claims }: ChannelScene,
  payer: Payer,
  charges: readonly CommittedCharge[],
): void {
  const { id, name } = payer
  const bodies = new Map<bigint, string>()
  for (const { payer: by, payment, transport } of requests) {
    if (by !== payer || payment.type === 'refund' || transport.got?.status !== 200) continue
    const { body } = transport.got
    const charge = charges.find(({ before, amountAtomic }) => before + amountAtomic === payment.total)
    assert.ok(charge !== undefined, `${name} has a response for ${payment.total}, and was not charged`)
    assert.equal(body, bodies.get(payment.total) ?? body, `${name}: every response for a voucher is the same`)
    bodies.set(payment.total, body)
  }
  const pathOf = (total: bigint, hash: string) =>
    requests.find(
      (one) => one.payer === payer && one.payment.total === total && one.x.channelCall?.requestHash === hash,
    )!.path
  const paid = new Map<string, CommittedCharge>()
  for (const charge of charges) {
    const total = charge.before + charge.amountAtomic
    const path = pathOf(total, charge.requestHash)
    // Hostile requests have no call of their own.
    if (!/\d$/.test(path)) continue
    const earlier = paid.get(path)
    paid.set(path, charge)
    if (earlier === undefined) continue
    const earlierTotal = earlier.before + earlier.amountAtomic
    const isClaimed = claims.some(
      (claim) => claim.id === id && claim.total >= earlierTotal && claim.atMs <= charge.atMs,
    )
    // Only the last response is kept, and a hostile request may have had the next one.
    const isLast = charge.before === earlierTotal
    assert.ok(isClaimed || !isLast, `${name} was charged twice for ${path}`)
  }
}
