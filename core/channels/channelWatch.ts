import {
  type Channel,
  type ChannelId,
  type ChannelOnChain,
  CLAIM_RECHECK_MS,
  claimable,
} from '../domain/channel.ts'
import { convertPrice, parseAmount } from '../domain/money.ts'
import { type Job, startJob } from '../jobs/job.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/log.ts'
import type { Channels, UnclaimedChannel } from '../ports/store/channels.ts'
import type { ChannelBook } from './channelBook.ts'
import { notePayouts } from './channelPayouts.ts'
import type { ChannelNetwork } from './offers.ts'

/** Channels that are read from the chain in one request, and claimed in one transaction. */
const MAX_BATCH = 50
/** How long a channel whose claim would fail is left out of the claims, in ms. */
const PARKED_MS = 3_600_000
/** How long a claim that was sent and not mined is waited for before the channel is claimed again, in ms. */
const PENDING_MS = 300_000
/**
 * How long a run claims, in ms, before the next run looks for withdrawals again. It is a sixth of the shortest delay of a withdrawal.
 */
const CLAIMING_MS = 600_000

export interface ChannelWatchDeps {
  readonly network: ChannelNetwork
  readonly book: ChannelBook
  readonly channels: Channels
  readonly assets: Chains['assets']
  readonly clock: Clock
  readonly log: Log
  /** Whether this process also claims now. One process of an installation does. */
  readonly claims: () => boolean
}

/**
 * Watches the channels of one network on chain, so that withdrawals, refunds and undone deposits are known within a minute, and
 * claims what is due: by amount, by age, and at once if the payer has requested a withdrawal. After a crash in the middle, the next
 * run reads from the chain what was claimed.
 */
export class ChannelWatch {
  readonly #deps: ChannelWatchDeps
  /** When a claim of each channel was sent whose block is not known, in ms since 1970. */
  readonly #pending = new Map<ChannelId, number>()
  readonly #job: Job

  constructor(deps: ChannelWatchDeps) {
    this.#deps = deps
    const { network, log } = deps
    this.#job = startJob({
      name: `watch the payment channels on ${network.chain.network}`,
      everyMs: network.watchMs,
      log,
      run: (signal) => this.#run(signal),
    })
  }

  /** Runs once now, or after the run in progress. Never rejects. */
  runNow(): Promise<void> {
    return this.#job.runNow()
  }

  close(): Promise<void> {
    return this.#job.stop()
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { network, book, channels, claims } = this.#deps
    const { chain } = network
    const open = [...book.all].filter(({ channel }) => channel.network === chain.network)
    for (let i = 0; i < open.length; i += MAX_BATCH) {
      const some = open.slice(i, i + MAX_BATCH)
      await book.read(some, chain)
    }
    if (!claims()) return
    const due: Channel[] = []
    const seen = new Map<string, Channel>()
    for (let after: ChannelId | null = null; !signal.aborted; ) {
      const page: UnclaimedChannel[] = await channels.unclaimed(chain.network, after, MAX_BATCH)
      if (page.length === 0) break
      due.push(...(await this.#dueOf(page)))
      for (const { channel } of page)
        seen.set(`${channel.storeId} ${channel.config.receiver} ${channel.config.token}`, channel)
      after = page.at(-1)!.channel.id
    }
    const untilMs = performance.now() + CLAIMING_MS
    for (const batch of batchesOf(due)) {
      if (signal.aborted || performance.now() >= untilMs) break
      await this.#claim(batch)
    }
    await notePayouts({ channels, chain }, seen.values())
  }

  /** Brings the rows of a page up to date. @returns the channels to claim, with their state in the contract */
  async #dueOf(page: readonly UnclaimedChannel[]): Promise<Channel[]> {
    const { network, channels } = this.#deps
    const { chain } = network
    const sinceMs = performance.now()
    const states = await chain.read(page.map(({ channel }) => channel.id))
    const due: Channel[] = []
    for (const [i, one] of page.entries()) {
      const state = states[i]!
      await this.#note(one.channel, state, sinceMs)
      const channel = { ...one.channel, ...state }
      if (this.#isSettled(channel, one)) await channels.update(channel.id, state)
      if (this.#isDue(channel, one) && (await this.#isClaimable(channel))) due.push(channel)
    }
    return due
  }

  async #note(channel: Channel, state: ChannelOnChain, sinceMs: number): Promise<void> {
    const { book, channels } = this.#deps
    const open = book.find(channel.id)
    if (open !== undefined) await book.update(open, state, sinceMs)
    const isSame =
      channel.totalClaimed === state.totalClaimed &&
      channel.balance === state.balance &&
      channel.pendingWithdrawal === state.pendingWithdrawal
    if (!isSame) await channels.update(channel.id, state)
  }

  /** Whether the claim of a channel is so old that its block stays. */
  #isSettled({ charged, totalClaimed }: Channel, { sinceMs }: UnclaimedChannel): boolean {
    return charged <= totalClaimed && this.#deps.clock.now() - sinceMs >= CLAIM_RECHECK_MS
  }

  #isDue(channel: Channel, { sinceMs, parked }: UnclaimedChannel): boolean {
    const { network, clock } = this.#deps
    const nowMs = clock.now()
    const { charged, totalClaimed, pendingWithdrawal } = channel
    if (charged <= totalClaimed) {
      this.#pending.delete(channel.id)
      return false
    }
    // During a withdrawal the claim is tried at each run, because the withdrawal may end before the channel is unparked.
    if (parked !== null && nowMs < parked.untilMs && pendingWithdrawal === 0n) return false
    if (nowMs - (this.#pending.get(channel.id) ?? 0) < PENDING_MS) return false
    if (pendingWithdrawal > 0n || nowMs - sinceMs >= network.claimAfterMs) return true
    return charged - totalClaimed >= this.#claimAmountOf(channel)
  }

  #claimAmountOf({ config }: Channel): bigint {
    const { assets, network } = this.#deps
    const asset = assets.find(({ address }) => address.toLowerCase() === config.token)
    const amount = parseAmount(network.claimAmount, 6)
    return asset === undefined ? 0n : convertPrice(amount, asset.usdPerUnit, asset.decimals)
  }

  /** Parks a channel that cannot be claimed, so that it does not make the batch of the others revert. */
  async #isClaimable(channel: Channel): Promise<boolean> {
    const { id, charged, balance, totalClaimed, config } = channel
    if (!this.#deps.network.chain.signsFor(config.receiverAuthorizer))
      await this.#park(id, 'its authorizer is not among channels.authorizerKeys')
    else if (claimable(channel) <= totalClaimed)
      await this.#park(id, `it owes ${charged}, and its balance is ${balance}`)
    else return true
    return false
  }

  async #claim(batch: readonly Channel[]): Promise<void> {
    const { network, log } = this.#deps
    const { chain } = network
    let sent = await chain.claim(batch)
    if (sent.status === 'refused' && sent.isRevert) {
      if (batch.length > 1) {
        // One channel makes the whole batch revert, so the halves are tried.
        const half = batch.length >> 1
        await this.#claim(batch.slice(0, half))
        return this.#claim(batch.slice(half))
      }
      // The receiver may be unable to receive. The claim alone still saves the money from a withdrawal.
      sent = await chain.claim(batch, false)
      if (sent.status === 'refused' && sent.isRevert) return this.#park(batch[0]!.id, sent.message)
    }
    if (sent.status === 'refused') throw new Error(sent.message)
    const { status, transaction } = sent
    log.info(
      { event: 'channels_claimed', network: chain.network, channels: batch.length, status, transaction },
      'claimed payment channels',
    )
    if (status === 'pending') for (const { id } of batch) this.#pending.set(id, this.#deps.clock.now())
    const sinceMs = performance.now()
    const states = await chain.read(batch.map(({ id }) => id))
    for (const [i, channel] of batch.entries()) await this.#note(channel, states[i]!, sinceMs)
  }

  async #park(id: ChannelId, reason: string): Promise<void> {
    const { channels, clock, log } = this.#deps
    log.warn({ event: 'channel_parked', channel: id, reason }, 'a payment channel cannot be claimed')
    await channels.park(id, clock.now() + PARKED_MS, reason)
  }
}

/** The batches in which channels are claimed, those with a requested withdrawal first. A batch has one authorizer. */
function batchesOf(due: readonly Channel[]): Channel[][] {
  const groups = Map.groupBy(
    due,
    ({ config, pendingWithdrawal }) => `${pendingWithdrawal > 0n ? 0 : 1} ${config.receiverAuthorizer}`,
  )
  return [...groups]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, group]) =>
      Array.from({ length: Math.ceil(group.length / MAX_BATCH) }, (_, i) =>
        group.slice(i * MAX_BATCH, (i + 1) * MAX_BATCH),
      ),
    )
}
