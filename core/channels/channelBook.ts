import {
  type Channel,
  type ChannelId,
  type ChannelOnChain,
  type SentRefund,
  withState,
} from '../domain/channel.ts'
import { type Job, startJob } from '../jobs/job.ts'
import type { ChannelChain } from '../ports/chains/channelChain.ts'
import type { Log } from '../ports/log.ts'
import type { Channels, OwnedChannel } from '../ports/store/channels.ts'
import type { Mailbox } from '../ports/store/mailbox.ts'
import { Handover } from './handover.ts'
import { OpenChannel, type Turn, WAIT_MS } from './openChannel.ts'
import { Opening, type Taken } from './opening.ts'

/** How long a channel without calls stays in memory, in ms. */
const IDLE_MS = 60_000
/** Time between two sweeps of idle channels, in ms. */
const SWEEP_MS = 5_000
/** Maximum channels whose first call reads database and chain at once. Any caller can name a channel. */
const MAX_READING = 64
/** Time after which a channel of another process is requested again, in ms. The request may be lost, or the process may have ended. */
const REQUEST_AGAIN_MS = 1_000

export interface ChannelBookDeps {
  readonly channels: Channels
  /** The lease that owns this process's rows, and whose mailbox no other part of the process reads. */
  readonly lease: { readonly current: { readonly id: number } }
  readonly mailbox: Mailbox
  readonly log: Log
}

/** What is known of a channel before the database has it. */
type Fresh = Pick<Channel, 'id' | 'network' | 'storeId' | 'config'>

/** The channels that this process owns, by id. */
export class ChannelBook {
  readonly #deps: ChannelBookDeps
  readonly #open = new Map<ChannelId, OpenChannel>()
  readonly #opening = new Map<ChannelId, Opening>()
  /** Channels whose row or state is being read. */
  #reading = 0
  /** Channels that were dropped, and whose rows this process may still own. */
  readonly #dropped = new Set<ChannelId>()
  readonly #sweeping: Job
  /** The releases in progress. A channel that is taken meanwhile would lose its owner again. */
  #releasing: Promise<unknown> = Promise.resolve()
  readonly #handover: Handover

  constructor(deps: ChannelBookDeps) {
    this.#deps = deps
    this.#handover = new Handover({
      ...deps,
      wanted: (id, turns, by) => this.#wanted(id, turns, by),
      moved: (id, given) => this.#opening.get(id)?.moved(given),
    })
    this.#sweeping = startJob({
      name: 'give idle channels back',
      everyMs: SWEEP_MS,
      log: deps.log,
      run: () => {
        this.#handover.listen()
        return this.#giveBack(performance.now() - IDLE_MS)
      },
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
   * Takes a channel from the database or from the process that owns it, and reads its state in the contract. A channel that the
   * database does not have starts with what is claimed in the contract. It is stored by {@link store}.
   *
   * @param fresh the channel as its first call describes it
   * @param untilMs how long to wait for the process that owns the channel, by this machine's monotonic clock
   * @returns `busy` if that process does not hand it over in time, or too many are being opened
   * @throws if database or chain cannot be read
   */
  take(fresh: Fresh, chain: ChannelChain, turn: Turn, untilMs: number): Promise<Taken> {
    const { id } = fresh
    const known = this.#opening.get(id)
    if (known !== undefined) {
      if (known.owner !== undefined) this.#handover.want(known.owner, id, [turn])
      return known.join(turn)
    }
    if (this.#reading >= MAX_READING) return Promise.resolve('busy')
    const opening = new Opening()
    this.#opening.set(id, opening)
    const taken = opening.join(turn)
    void this.#take(opening, fresh, chain, untilMs)
      .finally(() => this.#opening.delete(id))
      .then(
        (open) => opening.end(open),
        (error: unknown) => opening.fail(error),
      )
    return taken
  }

  async #take(opening: Opening, fresh: Fresh, chain: ChannelChain, untilMs: number): Promise<Taken> {
    const { channels, lease } = this.#deps
    const { id } = fresh
    for (;;) {
      await this.#releasing
      this.#dropped.add(id)
      const owned = await this.#counted(channels.take(id, lease.current.id))
      if (owned === undefined || 'channel' in owned) {
        const open = await this.#counted(this.#openBy(opening, fresh, owned, chain))
        this.#open.set(id, open)
        this.#dropped.delete(id)
        return open
      }
      if (performance.now() >= untilMs) return 'busy'
      opening.given = null
      opening.owner = owned.ownedBy
      this.#handover.want(owned.ownedBy, id, opening.turns)
      await opening.untilMoved(REQUEST_AGAIN_MS)
    }
  }

  async #openBy(
    { given }: Opening,
    fresh: Fresh,
    owned: OwnedChannel | undefined,
    chain: ChannelChain,
  ): Promise<OpenChannel> {
    // The row has the newest state that any process has read, also newer ones than the former owner's.
    if (owned !== undefined && given !== null) return new OpenChannel(owned.channel, owned, given.sinceMs)
    const sinceMs = performance.now()
    const [state] = await chain.read([fresh.id])
    if (owned === undefined) {
      const base = state!.totalClaimed
      const channel = { ...fresh, ...state!, charged: base, signed: base, signature: null, published: null }
      return new OpenChannel(channel, undefined, sinceMs)
    }
    const open = new OpenChannel(owned.channel, owned, sinceMs)
    await this.update(open, state!, sinceMs)
    return open
  }

  async #counted<T>(reading: Promise<T>): Promise<T> {
    this.#reading++
    try {
      return await reading
    } finally {
      this.#reading--
    }
  }

  /** Hands a channel over to a process with calls of it, as soon as it is the turn of one of them. */
  #wanted(id: ChannelId, turns: readonly Turn[], by: number): void {
    const opening = this.#opening.get(id)
    // The calls of this process have waited longer, so they hold the channel first.
    if (opening !== undefined)
      return void opening.ended.then(() => setImmediate(() => this.#wanted(id, turns, by)))
    const open = this.#open.get(id)
    if (open === undefined) {
      void this.#release([id], by)
        .then(() => this.#handover.moved(by, id, null))
        .catch((err: unknown) => this.#deps.log.warn({ err }, 'could not hand over a payment channel'))
      return
    }
    for (const turn of turns) void this.#handOver(open, turn, by)
  }

  async #handOver(open: OpenChannel, turn: Turn, to: number): Promise<void> {
    const { id } = open.channel
    if (open.isBusyFor(turn)) {
      if ((await open.wait(turn, performance.now() + WAIT_MS, to)) !== 'held') return
    } else open.hold()
    try {
      await this.#release([id], to)
      this.#handover.moved(to, id, { turn, sinceMs: open.readAtMs })
    } catch (err) {
      this.#deps.log.warn({ err }, 'could not hand over a payment channel')
    } finally {
      this.drop(open)
    }
  }

  /** @param next lease of the next owner. Null if there is none */
  #release(ids: readonly ChannelId[], next: number | null): Promise<void> {
    const releasing = this.#deps.channels.release(ids, this.#deps.lease.current.id, next)
    this.#releasing = Promise.allSettled([this.#releasing, releasing])
    return releasing
  }

  /** Stores a channel that has a balance. @returns false if another process has stored and owns it */
  async store(open: OpenChannel): Promise<boolean> {
    if (open.isStored) return true
    const { channels, lease } = this.#deps
    const { channel } = open
    const owned = await channels.open(channel, lease.current.id)
    if ('ownedBy' in owned || owned.channel.charged !== open.channel.charged) {
      this.drop(open)
      return false
    }
    open.isStored = true
    // The contract may have been read again during the write.
    if (open.channel !== channel) await channels.update(channel.id, open.channel)
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
    open.channel = withState(channel, state)
    if (state.totalClaimed > channel.totalClaimed && state.totalClaimed >= channel.charged) open.last = null
    if (open.isStored) await this.#deps.channels.update(channel.id, state)
  }

  /**
   * Notes a refund in memory and database before it is sent, or that it has failed.
   *
   * @returns false if another process has taken the row over
   */
  async noteRefund(open: OpenChannel, refund: SentRefund | null): Promise<boolean> {
    const { channels, lease } = this.#deps
    const isNoted = await channels.noteRefund(open.channel.id, lease.current.id, refund)
    if (isNoted) open.refund = refund
    else this.drop(open)
    return isNoted
  }

  /** Forgets a channel whose row may have changed, so that its next call takes it again. */
  drop(open: OpenChannel): void {
    if (this.#open.get(open.channel.id) === open) this.#open.delete(open.channel.id)
    if (open.isStored) this.#dropped.add(open.channel.id)
    open.drop()
  }

  async close(): Promise<void> {
    await this.#sweeping.stop()
    this.#handover.close()
    await this.#giveBack(Number.POSITIVE_INFINITY)
  }

  async #giveBack(usedBeforeMs: number): Promise<void> {
    const idle = [...this.#open.values()].filter((open) => open.isIdle && open.usedAtMs < usedBeforeMs)
    for (const open of idle) this.drop(open)
    const ids = [...this.#dropped].filter((id) => !this.#open.has(id) && !this.#opening.has(id))
    if (ids.length === 0) return
    await this.#release(ids, null)
    for (const id of ids) this.#dropped.delete(id)
  }
}
