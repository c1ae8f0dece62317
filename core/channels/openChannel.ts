import type { Channel, SentRefund } from '../domain/channel.ts'
import type { ChargedCall, OwnedChannel } from '../ports/store/channels.ts'

/** Maximum calls that wait for the call of a channel that is at the seller. */
const MAX_WAITING = 32
/** How long a call waits for its channel, in ms. Clients give up after 15 s. */
export const WAIT_MS = 10_000
/**
 * How long the channel waits for the repeat of a call that was corrected, in ms. Other waiting calls would otherwise be corrected to
 * the same total, of which only one can be charged.
 */
const CORRECTED_MS = 2_000

/** A call that competes for a channel. */
export interface Turn {
  /** The voucher's total, less the most that its call can cost. The call can be charged only if this is what is charged now. */
  readonly base: bigint
  /** Hash of the call's request. Null if it is unknown. */
  readonly requestHash: string | null
}

/** How a wait ended. `late`: too many calls wait, or the wait took too long. `dropped`: the channel has to be taken again. */
type Granted = 'held' | 'late' | 'dropped'

interface Waiting extends Turn {
  /** The lease of the process with the call. Null for this process. */
  readonly by: number | null
  grant(granted: Granted): void
}

/** A channel in the memory of the process that owns its row. One call at a time is between its check and its charge. */
export class OpenChannel {
  channel: Channel
  /** The call that was charged last, until it is claimed. */
  last: ChargedCall | null
  /** When it was charged, by this machine's monotonic clock, in ms. */
  lastAtMs: number
  /**
   * True until the first charge, if the row may lack calls: a database that was restored or has lost its last commits. Only then, a
   * voucher over more than the next total is accepted, because its payer has signed for the calls that the row lacks: they have cost
   * the voucher's base, less what the row has.
   */
  mayBeBehind: boolean
  /** False until the channel is in the database. */
  isStored: boolean
  /** When the read of the chain began whose state the channel has, by this machine's monotonic clock, in ms. */
  readAtMs: number
  /** The last refund that was sent. Null if none was, or it has failed. */
  refund: SentRefund | null
  /** When this process has sent it, by this machine's monotonic clock, in ms. */
  refundSentAtMs = Number.NEGATIVE_INFINITY
  /** When the last call ended, likewise. */
  usedAtMs = performance.now()
  /** True if the row may have another state, so that it has to be taken again. */
  isDropped = false
  #isHeld = false
  #correcting: NodeJS.Timeout | undefined
  /** The request that was corrected, which is expected again. A client repeats a corrected call only once. */
  #correctedHash: string | null = null
  readonly #waiting: Waiting[] = []

  /** @param owned the row. Undefined if the channel is not in the database */
  constructor(channel: Channel, owned: OwnedChannel | undefined, readAtMs: number) {
    this.channel = channel
    this.last = owned?.last ?? null
    this.lastAtMs = performance.now() - (owned?.lastAgeMs ?? 0)
    this.refund = owned?.refund ?? null
    this.mayBeBehind = owned?.isAbandoned ?? false
    this.isStored = owned !== undefined
    this.readAtMs = readAtMs
  }

  get isIdle(): boolean {
    return !this.#isHeld && this.#waiting.length === 0
  }

  /** The refund that was sent and is not seen in the contract's state yet. */
  get pendingRefund(): SentRefund | null {
    return this.refund !== null && this.channel.refundNonce <= this.refund.nonce ? this.refund : null
  }

  /**
   * The highest total that a voucher can have, in atomic units. The contract reserves nothing for vouchers, so a requested withdrawal
   * and a refund in progress count as gone.
   */
  get maxTotal(): bigint {
    const { balance, pendingWithdrawal } = this.channel
    return balance - pendingWithdrawal - (this.pendingRefund?.amount ?? 0n)
  }

  /** Whether a call would have to wait. */
  isBusyFor(turn: Turn): boolean {
    return this.#isHeld || (this.#correcting !== undefined && !this.#isExpected(turn))
  }

  /** Holds the channel for a call. Call it only while the channel is not busy for the call. */
  hold(): void {
    this.#isHeld = true
    clearTimeout(this.#correcting)
    this.#correcting = undefined
  }

  /**
   * Waits until the channel is held for this call.
   *
   * @param untilMs end of the wait, by this machine's monotonic clock
   * @param by lease of the process with the call, which asks repeatedly. Null for this process
   */
  wait({ base, requestHash }: Turn, untilMs: number, by: number | null = null): Promise<Granted> {
    if (this.isDropped) return Promise.resolve('dropped')
    const isKnown = (one: Waiting) => one.by === by && one.base === base && one.requestHash === requestHash
    if (this.#waiting.length >= MAX_WAITING || (by !== null && this.#waiting.some(isKnown)))
      return Promise.resolve('late')
    return new Promise((resolve) => {
      const late = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        resolve('late')
      }, untilMs - performance.now())
      const waiting: Waiting = {
        base,
        requestHash,
        by,
        grant: (granted) => {
          clearTimeout(late)
          resolve(granted)
        },
      }
      this.#waiting.push(waiting)
    })
  }

  /**
   * Ends the hold of a call. A waiting call whose voucher fits the total comes first.
   *
   * @param corrected the call, if it was told the total. It will probably be repeated at once
   */
  release(corrected?: Pick<Turn, 'requestHash'>): void {
    this.#isHeld = false
    this.usedAtMs = performance.now()
    if (corrected !== undefined && !this.isDropped) {
      this.#correctedHash = corrected.requestHash
      this.#correcting = setTimeout(() => {
        this.#correcting = undefined
        this.#next()
      }, CORRECTED_MS).unref()
    }
    this.#next()
  }

  /** Marks that the row has to be taken again, also by the waiting calls. */
  drop(): void {
    this.isDropped = true
    clearTimeout(this.#correcting)
    for (const { grant } of this.#waiting.splice(0)) grant('dropped')
  }

  #next(): void {
    if (this.#isHeld || this.#waiting.length === 0) return
    const isCorrecting = this.#correcting !== undefined
    const fitting = this.#waiting.findIndex((turn) =>
      isCorrecting ? this.#isExpected(turn) : turn.base === this.channel.charged,
    )
    if (fitting === -1 && isCorrecting) return
    const [next] = this.#waiting.splice(Math.max(0, fitting), 1)
    this.hold()
    next!.grant('held')
  }

  /** Whether the call is the repeat of the corrected one. */
  #isExpected({ base, requestHash }: Turn): boolean {
    return base === this.channel.charged && requestHash === this.#correctedHash
  }
}
