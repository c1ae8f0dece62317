import type { HandedOver } from './handover.ts'
import type { OpenChannel, Turn } from './openChannel.ts'

/** The channel, or `busy` if the process that owns it did not hand it over in time, or too many are being opened. */
export type Taken = OpenChannel | 'busy'

type Call = Turn & PromiseWithResolvers<Taken>

/** A channel that is being taken, and the calls of this process that wait for it. */
export class Opening {
  /** The lease of the process that owns the channel. Undefined while it is unknown. */
  owner: number | undefined
  /** What the former owner has told. Null if it has told nothing, or there was none. */
  given: HandedOver | null = null
  /** Resolves once the calls have the channel, or are refused. */
  readonly ended: Promise<void>
  readonly #ended = Promise.withResolvers<void>()
  readonly #calls: Call[] = []
  #moved = Promise.withResolvers<void>()

  constructor() {
    this.ended = this.#ended.promise
  }

  get turns(): Turn[] {
    return this.#calls.map(({ base, requestHash }) => ({ base, requestHash }))
  }

  /** Adds a call. @returns the channel for this call */
  join({ base, requestHash }: Turn): Promise<Taken> {
    const call = { base, requestHash, ...Promise.withResolvers<Taken>() }
    this.#calls.push(call)
    return call.promise
  }

  /** Notes that the former owner has made this process the owner. */
  moved(given: HandedOver | null): void {
    this.given = given
    this.#moved.resolve()
  }

  /** Resolves when the channel has moved here, at the latest after this time. */
  async untilMoved(ms: number): Promise<void> {
    const { promise, resolve } = this.#moved
    const late = setTimeout(resolve, ms)
    await promise
    clearTimeout(late)
    this.#moved = Promise.withResolvers()
  }

  /** Gives the channel to the calls: first the call for which it was handed over, then those whose voucher fits the total. */
  end(taken: Taken): void {
    const rankOf = ({ base, requestHash }: Call): number => {
      if (taken === 'busy' || base !== taken.channel.charged) return 2
      return requestHash === this.given?.turn.requestHash ? 0 : 1
    }
    for (const { resolve } of this.#calls.toSorted((a, b) => rankOf(a) - rankOf(b))) resolve(taken)
    this.#ended.resolve()
  }

  fail(error: unknown): void {
    for (const { reject } of this.#calls) reject(error)
    this.#ended.resolve()
  }
}
