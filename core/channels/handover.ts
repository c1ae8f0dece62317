import { deserialize, serialize } from 'node:v8'
import type { ChannelId } from '../domain/channel.ts'
import type { Log } from '../ports/log.ts'
import type { Mailbox } from '../ports/store/mailbox.ts'
import type { Turn } from './openChannel.ts'

/** What the former owner of a channel knows. */
export interface HandedOver {
  /** The call for which the channel is handed over. It comes first, because it may be the only repeat of a corrected call. */
  readonly turn: Turn
  /** When the read of the contract began whose state the row has, by this machine's monotonic clock, in ms. */
  readonly sinceMs: number
}

type Note =
  /** The calls that wait for a channel. */
  | { readonly type: 'want'; readonly id: ChannelId; readonly turns: readonly Turn[] }
  /** The channel's row belongs to the recipient now. `given` is null if the sender knows nothing more. */
  | {
      readonly type: 'moved'
      readonly id: ChannelId
      readonly given: { readonly turn: Turn; readonly ageMs: number } | null
    }

export interface HandoverDeps {
  readonly mailbox: Mailbox
  /** The lease that owns this process's rows. Its mailbox receives the messages about them. */
  readonly lease: { readonly current: { readonly id: number } }
  readonly log: Log
  /** Another process has calls of a channel. */
  wanted(id: ChannelId, turns: readonly Turn[], by: number): void
  /** Another process has made this one the owner of a channel. */
  moved(id: ChannelId, given: HandedOver | null): void
}

/**
 * The messages by which processes hand channels over. A message may be lost, so the process that wants a channel repeats its request,
 * and takes the row of a process that has ended.
 */
export class Handover {
  readonly #deps: HandoverDeps
  #listensTo = 0
  #endListening = (): void => undefined

  constructor(deps: HandoverDeps) {
    this.#deps = deps
    this.listen()
  }

  /** Listens at the current lease of this process. Called again because a lost lease is replaced. */
  listen(): void {
    const { mailbox, lease, wanted, moved } = this.#deps
    const { id: own } = lease.current
    if (own === this.#listensTo) return
    this.#endListening()
    this.#listensTo = own
    this.#endListening = mailbox.listen(own, ({ from, body }) => {
      const note = deserialize(body) as Note
      if (note.type === 'want') return wanted(note.id, note.turns, from)
      const { id, given } = note
      moved(id, given && { turn: given.turn, sinceMs: performance.now() - given.ageMs })
    })
  }

  want(owner: number, id: ChannelId, turns: readonly Turn[]): void {
    this.#post(owner, { type: 'want', id, turns })
  }

  moved(to: number, id: ChannelId, given: HandedOver | null): void {
    if (given === null) return this.#post(to, { type: 'moved', id, given })
    const { turn, sinceMs } = given
    this.#post(to, { type: 'moved', id, given: { turn, ageMs: performance.now() - sinceMs } })
  }

  close(): void {
    this.#endListening()
  }

  #post(to: number, note: Note): void {
    const { mailbox, lease, log } = this.#deps
    mailbox
      .post([{ to, from: lease.current.id, body: serialize(note) }])
      .catch((err: unknown) => log.warn({ err }, 'a message about a payment channel was lost'))
  }
}
