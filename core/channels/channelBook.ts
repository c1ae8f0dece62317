import type { Channel, ChannelId, ChannelOnChain } from '../domain/channel.ts'
import { type Job, startJob } from '../jobs/job.ts'
import type { ChannelChain } from '../ports/chains/channelChain.ts'
import type { Log } from '../ports/log.ts'
import type { Channels } from '../ports/store/channels.ts'
import { OpenChannel } from './openChannel.ts'

/** How long a channel without calls stays in memory, in ms. Another process can take it after that. */
const IDLE_MS = 60_000
/** Time between two sweeps of idle channels, in ms. */
const SWEEP_MS = 5_000
/** Maximum channels whose first call reads database and chain at once. Any caller can name a channel. */
const MAX_OPENING = 64

export interface ChannelBookDeps {
  readonly channels: Channels
  /** This process's lease, which owns the rows. */
  readonly lease: { readonly current: { readonly id: number } }
  readonly log: Log
}

/** The channels that this process owns, by id. */
export class ChannelBook {
  readonly #deps: ChannelBookDeps
  readonly #open = new Map<ChannelId, OpenChannel>()
  readonly #opening = new Map<ChannelId, Promise<OpenChannel | 'busy'>>()
  /** Channels that were dropped, and whose rows this process may still own. */
  readonly #dropped = new Set<ChannelId>()
  readonly #sweeping: Job
  /** The release in progress. A channel that is taken meanwhile would lose its owner again. */
  #releasing: Promise<void> = Promise.resolve()

  constructor(deps: ChannelBookDeps) {
    this.#deps = deps
    this.#sweeping = startJob({
      name: 'give idle channels back',
      everyMs: SWEEP_MS,
      log: deps.log,
      run: () => this.#giveBack(performance.now() - IDLE_MS),
    })
  }

  get all(): Iterable<OpenChannel> {
    return this.#open.values()
  }

  /** The channel, if it is in memory. */
  find(id: ChannelId): OpenChannel | undefined {
    return this.#open.get(id)
  }

  /**
   * Takes a channel from the database, and reads its state in the contract. A channel that the database does not have starts with
   * what is claimed in the contract. It is stored by {@link store}.
   *
   * @param fresh the channel as its first call describes it
   * @returns `busy` if another process owns the channel, or too many are being opened
   * @throws if database or chain cannot be read
   */
  take(
    fresh: Pick<Channel, 'id' | 'network' | 'storeId' | 'config'>,
    chain: ChannelChain,
  ): Promise<OpenChannel | 'busy'> {
    const { id } = fresh
    let opening = this.#opening.get(id)
    if (opening === undefined) {
      if (this.#opening.size >= MAX_OPENING) return Promise.resolve('busy')
      opening = this.#take(fresh, chain).finally(() => this.#opening.delete(id))
      this.#opening.set(id, opening)
    }
    return opening
  }

  async #take(
    fresh: Pick<Channel, 'id' | 'network' | 'storeId' | 'config'>,
    chain: ChannelChain,
  ): Promise<OpenChannel | 'busy'> {
    const { channels, lease } = this.#deps
    const { id } = fresh
    await this.#releasing
    const sinceMs = performance.now()
    this.#dropped.add(id)
    const [owned, [onChain]] = await Promise.all([channels.take(id, lease.current.id), chain.read([id])])
    if (owned === 'busy') return owned
    let open: OpenChannel
    if (owned === undefined) {
      const state = { ...onChain!, charged: onChain!.totalClaimed, signature: null }
      open = new OpenChannel({ ...fresh, ...state }, null, false, sinceMs)
    } else {
      open = new OpenChannel(owned.channel, owned.lastRequestHash, true, sinceMs)
      await this.update(open, onChain!, sinceMs)
    }
    this.#open.set(id, open)
    this.#dropped.delete(id)
    return open
  }

  /** Stores a channel that has a balance. @returns false if another process has stored and owns it */
  async store(open: OpenChannel): Promise<boolean> {
    if (open.isStored) return true
    const { channels, lease } = this.#deps
    const owned = await channels.open(open.channel, lease.current.id)
    if (owned === 'busy' || owned.channel.charged !== open.channel.charged) {
      this.drop(open)
      return false
    }
    open.isStored = true
    return true
  }

  /** Reads the state of channels in the contract. @throws if the chain cannot be read */
  async read(open: readonly OpenChannel[], chain: ChannelChain): Promise<void> {
    const sinceMs = performance.now()
    const states = await chain.read(open.map(({ channel }) => channel.id))
    for (const [i, one] of open.entries()) await this.update(one, states[i]!, sinceMs)
  }

  /**
   * Writes a state of the contract to memory and database.
   *
   * @param sinceMs when the read of the state began. The state is ignored if a later read has ended already, because a refund may
   *   have landed between the two
   */
  async update(open: OpenChannel, state: ChannelOnChain, sinceMs: number): Promise<void> {
    if (sinceMs < open.readAtMs) return
    open.readAtMs = sinceMs
    const { channel } = open
    const isSame =
      channel.balance === state.balance &&
      channel.totalClaimed === state.totalClaimed &&
      channel.pendingWithdrawal === state.pendingWithdrawal &&
      channel.refundNonce === state.refundNonce
    if (isSame) return
    const isBehind = state.totalClaimed > channel.charged
    open.channel = {
      ...channel,
      ...state,
      ...(isBehind && { charged: state.totalClaimed, signature: null }),
    }
    if (state.totalClaimed >= channel.charged) open.lastRequestHash = null
    if (open.isStored) await this.#deps.channels.update(channel.id, state)
  }

  /** Forgets a channel whose row may have changed, so that its next call takes it again. */
  drop(open: OpenChannel): void {
    if (this.#open.get(open.channel.id) === open) this.#open.delete(open.channel.id)
    if (open.isStored) this.#dropped.add(open.channel.id)
    open.drop()
  }

  async close(): Promise<void> {
    await this.#sweeping.stop()
    await this.#giveBack(Number.POSITIVE_INFINITY)
  }

  async #giveBack(usedBeforeMs: number): Promise<void> {
    const idle = [...this.#open.values()].filter((open) => open.isIdle && open.usedAtMs < usedBeforeMs)
    for (const open of idle) this.drop(open)
    const ids = [...this.#dropped].filter((id) => !this.#open.has(id) && !this.#opening.has(id))
    if (ids.length === 0) return
    const releasing = this.#deps.channels.release(ids, this.#deps.lease.current.id)
    this.#releasing = releasing.catch(() => undefined)
    await releasing
    for (const id of ids) this.#dropped.delete(id)
  }
}
