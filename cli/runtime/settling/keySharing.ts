import { setTimeout as sleep } from 'node:timers/promises'
import { deserialize, serialize } from 'node:v8'
import { keyIsShared, notStarted } from '../../../adapters/chains/refusals.ts'
import { type Job, startJob } from '../../../core/jobs/job.ts'
import { type HeldLease, leaseNamesOf } from '../../../core/payments/leases.ts'
import type { Chains } from '../../../core/ports/chains/chains.ts'
import type {
  Hold,
  SettleOutcome,
  Settler,
  Verified,
  VerifyContext,
} from '../../../core/ports/chains/settler.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Lease, Leases } from '../../../core/ports/store/leases.ts'
import type { Mailbox, Message } from '../../../core/ports/store/mailbox.ts'
import { SettlementClient } from './settlementClient.ts'
import { type SettlementRequest, type SettlementResponse, SettlementServer } from './settlementServer.ts'

/** Time between two checks of open requests and of the processes that work on them, in ms. */
const CHECK_MS = 1_000
/**
 * Time after which a request without a response is sent again, in ms. Most responses come earlier. It is short because a buyer
 * waits if a restart lost the message.
 */
const RESEND_MS = 3_000
/**
 * Time after which a request to verify, or its response, counts as lost, in ms. Messages are lost while the database is down.
 */
const MAX_VERIFY_MS = 20_000
/**
 * Time after which a request to settle, or its response, counts as lost, in ms. It is longer than any lease holder waits for a
 * database and for a receipt.
 */
const MAX_SETTLE_MS = 90_000
/** How long the lease holder keeps a response for a repeated request, in ms. It is longer than any request is repeated. */
const RESPONSE_RETENTION_MS = 120_000
/**
 * How long a settlement waits for a process that holds the lease once the seller has done its work, in ms. It is longer than a
 * lost process's lease.
 */
const NO_HOLDER_MS = 20_000
const NO_HOLDER_CHECK_MS = 250
/**
 * How long this process refuses every payment after the lease holder refused one because the key is used elsewhere, in ms. A
 * lease holder refuses no longer than that.
 */
const REFUSES_ALL_MS = 60_000

export interface KeySharingDeps {
  readonly mailbox: Mailbox
  readonly leases: Pick<Leases, 'holderOf'>
  /** The lease of this process. The mailbox of this lease receives the responses. */
  readonly lease: Pick<HeldLease, 'current'>
  readonly log: Log
}

/** A message to the process that holds a key's lease. */
interface Envelope {
  /** Name of the sender's lease. While the sender holds this lease, it waits for the response. */
  readonly name: string
  readonly message: SettlementRequest
}

/** The channel to the process that holds one key's lease. */
interface Channel {
  readonly holder: number
  readonly client: SettlementClient
  readonly remote: Settler
  /**
   * Until this time, this process refuses every payment, because the lease holder refused one with a key that is used
   * elsewhere.
   */
  refusesAllUntilMs: number
}

/** A settler whose lease this process holds. */
interface OwnKey {
  readonly leases: readonly Lease[]
  readonly isHeld: () => boolean
  /** Mailboxes by lease id, which is the fencing token. */
  readonly mailboxes: ReadonlyMap<number, LeaseMailbox>
}

/**
 * Settles with the keys that the processes of an installation share. The process that holds a key's lease settles, and the
 * other processes send it their payments as messages. The lease holder counts held slots (each reserved for a verified payment)
 * and budgets. The process that has the call writes the ledger.
 */
export class KeySharing {
  readonly #deps: KeySharingDeps
  readonly #settlers = new Map<string, Settler>()
  readonly #own = new Map<string, OwnKey>()
  readonly #channels = new Map<string, Channel>()
  /**
   * For each held slot, the context of its verification and the channel to the process that holds it. No channel means this
   * process.
   */
  readonly #heldBy = new WeakMap<
    Hold,
    { readonly channel: Channel | undefined; readonly context: VerifyContext }
  >()
  /** The lease of this process whose mailbox receives the responses. */
  #address: Lease
  #endListening: () => void
  readonly #job: Job

  constructor(deps: KeySharingDeps) {
    this.#deps = deps
    this.#address = deps.lease.current
    this.#endListening = this.#listen()
    this.#job = startJob({
      name: 'find the process that settles',
      everyMs: CHECK_MS,
      log: deps.log,
      run: () => this.#check(),
    })
  }

  /**
   * Lets a settler verify and settle in the process that holds its lease, which may be this process. Other settlers stay
   * unchanged.
   */
  readonly wrap = (settler: Settler): Settler => {
    if (settler.isExclusive !== true) return settler
    this.#settlers.set(settler.id, settler)
    return Object.create(settler, {
      verify: { value: this.#verifyBy(settler) },
      settle: { value: this.#settleBy(settler) },
      ...(settler.transact !== undefined && { transact: { value: this.#transactBy(settler) } }),
      refusesAll: { value: () => this.#refusesAll(settler) },
    }) as Settler
  }

  /**
   * Records that this process holds these leases, which are the settler's own lease and those of its keys. While `isHeld`
   * returns true, this process reads all of their mailboxes. Otherwise it forwards payments to the process that holds a key, as
   * if it held no lease itself.
   */
  holds({ id, network }: Settler, leases: readonly Lease[], isHeld: () => boolean): void {
    this.#closeChannel(id)
    const settler = this.#settlers.get(id)!
    const chains = { settler: (of: string) => (of === network ? settler : undefined) }
    // An open mailbox stays open. Reading it from the start could deliver a message twice, and the slots held for other
    // processes would be lost.
    const open = new Map(this.#own.get(id)?.mailboxes)
    const mailboxes = new Map<number, LeaseMailbox>()
    for (const lease of isHeld() ? leases : []) {
      if (mailboxes.has(lease.id)) continue
      mailboxes.set(lease.id, open.get(lease.id) ?? new LeaseMailbox(lease.id, chains, this.#deps))
      open.delete(lease.id)
    }
    for (const mailbox of open.values()) mailbox.close()
    this.#own.set(id, { leases, isHeld, mailboxes })
  }

  /** Records that this process no longer holds the settler's lease. */
  lost({ id }: Pick<Settler, 'id'>): void {
    for (const mailbox of this.#own.get(id)?.mailboxes.values() ?? []) mailbox.close()
    this.#own.delete(id)
  }

  async close(): Promise<void> {
    await this.#job.stop()
    for (const id of [...this.#own.keys()]) this.lost({ id })
    for (const id of [...this.#channels.keys()]) this.#closeChannel(id)
    this.#endListening()
  }

  #listen(): () => void {
    return this.#deps.mailbox.listen(this.#address.id, (message) => this.#receive(message))
  }

  #receive({ from, body }: Message): void {
    const response = deserialize(body) as SettlementResponse
    for (const { holder, client } of this.#channels.values())
      if (holder === from && client.receive(response)) return
    // The channel was closed before this response came. The lease holder would hold the slot until this process ends, so the
    // slot is released.
    if (response.type !== 'verified' || response.refusal !== null) return
    this.#post(from, this.#address, { type: 'release', held: response.call }).catch((err: unknown) =>
      this.#deps.log.warn({ err }, 'could not release a hold without a request'),
    )
  }

  #post(to: number, { id: from, name }: Lease, message: SettlementRequest): Promise<void> {
    const envelope: Envelope = { name, message }
    return this.#deps.mailbox.post([{ to, from, body: serialize(envelope) }])
  }

  /**
   * The id of the lease to which messages are sent. It is a key's lease or, while no other process holds a key, the settler's
   * own lease. The keys come first, because a gateway with another list of keys may hold the keys while a gateway with this
   * list holds the settler's own lease.
   */
  async #holderFor(settler: Settler): Promise<number | undefined> {
    const own = this.#own.get(settler.id)?.leases
    for (const name of leaseNamesOf(settler)) {
      const holder = await this.#deps.leases.holderOf(name)
      if (holder !== undefined && own?.some((one) => one.id === holder.id) !== true) return holder.id
    }
    return undefined
  }

  /**
   * Opens a channel to the process that holds the key's lease.
   * @returns undefined if no other process holds it or the database does not respond
   */
  async #channelTo(settler: Settler): Promise<Channel | undefined> {
    const holder = await this.#holderFor(settler)
    const known = this.#channels.get(settler.id)
    if (known !== undefined && known.holder === holder) return known
    this.#closeChannel(settler.id)
    if (holder === undefined) return undefined
    const from = this.#address
    const client = new SettlementClient((request) => {
      this.#post(holder, from, request).catch((err: unknown) => {
        this.#deps.log.warn({ err }, 'could not send to the process that settles')
        // It is unknown which open requests the lease holder received. They are handled as if the lease holder had ended.
        if (this.#channels.get(settler.id) === channel) this.#closeChannel(settler.id)
      })
    })
    const channel: Channel = { holder, client, remote: client.wrap(settler), refusesAllUntilMs: 0 }
    this.#channels.set(settler.id, channel)
    return channel
  }

  #closeChannel(id: string): void {
    const channel = this.#channels.get(id)
    this.#channels.delete(id)
    channel?.client.lost()
  }

  async #check(): Promise<void> {
    const { current } = this.#deps.lease
    // This process was paused until its lease expired. Responses go to the old lease's mailbox, which no process reads.
    if (current.id !== this.#address.id) {
      for (const id of [...this.#channels.keys()]) this.#closeChannel(id)
      this.#endListening()
      this.#address = current
      this.#endListening = this.#listen()
    }
    for (const { client } of this.#channels.values()) {
      client.resend(RESEND_MS)
      client.refuseLate(MAX_VERIFY_MS)
      client.endLate(MAX_SETTLE_MS)
    }
    for (const [id, { client }] of this.#channels)
      if (client.waiting > 0) await this.#channelTo(this.#settlers.get(id)!)
    for (const { mailboxes } of this.#own.values())
      for (const mailbox of mailboxes.values()) await mailbox.dropLost()
  }

  #isOwn({ id }: Settler): boolean {
    return this.#own.get(id)?.isHeld() === true
  }

  #verifyBy(settler: Settler): Settler['verify'] {
    return async (payment, terms, identity, context) => {
      const channel = this.#isOwn(settler) ? undefined : await this.#channelTo(settler).catch(() => undefined)
      const verified = await (channel?.remote ?? settler).verify(payment, terms, identity, context)
      if (channel !== undefined) {
        if (verified.ok) channel.refusesAllUntilMs = 0
        else if (verified.reason === keyIsShared.reason)
          channel.refusesAllUntilMs = performance.now() + REFUSES_ALL_MS
      }
      if (verified.ok) this.#heldBy.set(verified.hold, { channel, context })
      return verified
    }
  }

  #transactBy(settler: Settler): NonNullable<Settler['transact']> {
    return async (call, storeId) => {
      const channel = this.#isOwn(settler) ? undefined : await this.#channelTo(settler).catch(() => undefined)
      return (channel?.remote ?? settler).transact!(call, storeId)
    }
  }

  /** The lease holder's refusal of all payments. Only the lease holder watches the key. */
  #refusesAll(settler: Settler): ReturnType<NonNullable<Settler['refusesAll']>> {
    if (this.#isOwn(settler)) return settler.refusesAll?.()
    const untilMs = this.#channels.get(settler.id)?.refusesAllUntilMs ?? 0
    return performance.now() < untilMs ? keyIsShared : undefined
  }

  #isWhereItWas(settler: Settler, channel: Channel | undefined): boolean {
    if (channel === undefined) return this.#isOwn(settler)
    return !this.#isOwn(settler) && this.#channels.get(settler.id) === channel
  }

  /** Verifies a payment again, because the lease has moved to another process. Retries until a process holds the lease. */
  async #verifyAgain(settler: Settler, ...args: Parameters<Settler['verify']>): Promise<Verified> {
    const endMs = performance.now() + NO_HOLDER_MS
    for (;;) {
      const verified = await this.#verifyBy(settler)(...args)
      if (verified.ok || verified.reason !== notStarted.reason || performance.now() >= endMs) return verified
      await sleep(NO_HOLDER_CHECK_MS, undefined, { ref: false })
    }
  }

  #settleBy(settler: Settler): Settler['settle'] {
    return async (payment, terms, identity, store, hold) => {
      const known = hold === undefined ? undefined : this.#heldBy.get(hold)
      if (hold === undefined || known === undefined)
        return settler.settle(payment, terms, identity, store, hold)
      // The lease holder that verified the payment may have ended. Opening the channel again detects that.
      if (known.channel !== undefined) await this.#channelTo(settler).catch(() => undefined)
      if (this.#isWhereItWas(settler, known.channel)) {
        const own = known.channel?.remote ?? settler
        const outcome = await own.settle(payment, terms, identity, store, hold)
        // Another process took the lease, so nothing was stored, and the payment is verified again.
        if (outcome.status !== 'rejected' || outcome.reason !== notStarted.reason) return outcome
      } else hold.release()
      const verified = await this.#verifyAgain(settler, payment, terms, identity, known.context)
      if (!verified.ok) return rejectedBy(verified)
      const { channel } = this.#heldBy.get(verified.hold)!
      return (channel?.remote ?? settler).settle(payment, terms, identity, store, verified.hold)
    }
  }
}

const rejectedBy = ({ reason, message, transient }: Exclude<Verified, { ok: true }>): SettleOutcome => ({
  status: 'rejected',
  reason,
  message,
  ...(transient === true && { transient }),
})

/** The mailbox of a lease that this process holds. It verifies and settles payments for the other processes. */
class LeaseMailbox {
  readonly #deps: KeySharingDeps
  readonly #chains: Pick<Chains, 'settler'>
  readonly #lease: number
  /** Sending processes by the id of their lease. */
  readonly #senders = new Map<number, { readonly name: string; readonly server: SettlementServer }>()
  readonly #endListening: () => void

  constructor(lease: number, chains: Pick<Chains, 'settler'>, deps: KeySharingDeps) {
    this.#deps = deps
    this.#chains = chains
    this.#lease = lease
    this.#endListening = deps.mailbox.listen(lease, ({ from, body }) => {
      const { name, message } = deserialize(body) as Envelope
      this.#serverFor(from, name).receive(message)
    })
  }

  /** Releases the slots that are held for processes that have ended. */
  async dropLost(): Promise<void> {
    for (const [from, { name }] of this.#senders)
      if ((await this.#deps.leases.holderOf(name))?.id !== from) this.#drop(from)
  }

  close(): void {
    this.#endListening()
    for (const from of [...this.#senders.keys()]) this.#drop(from)
  }

  #serverFor(from: number, name: string): SettlementServer {
    const known = this.#senders.get(from)
    if (known !== undefined) return known.server
    // A lost response needs no handling, because the other process repeats its request.
    const send = (response: SettlementResponse) =>
      void this.#deps.mailbox
        .post([{ to: from, from: this.#lease, body: serialize(response) }])
        .catch((err: unknown) =>
          this.#deps.log.warn({ err }, 'could not respond to a process that requested a settlement'),
        )
    const server = new SettlementServer(this.#chains, send, RESPONSE_RETENTION_MS)
    this.#senders.set(from, { name, server })
    return server
  }

  #drop(from: number): void {
    this.#senders.get(from)?.server.lost()
    this.#senders.delete(from)
  }
}
