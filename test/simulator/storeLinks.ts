import { neverSent } from '../../core/domain/payment.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ChannelCharge } from '../../core/ports/store/channels.ts'
import type { Lease } from '../../core/ports/store/leases.ts'
import type { PaymentChange } from '../../core/ports/store/ledger.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import type { Claim } from './buyers.ts'
import type { GatewayProcess } from './gatewayProcess.ts'
import { createMessageTable, type MessageTable } from './mailboxTable.ts'
import type { Owner } from './scheduler.ts'
import { settlingAccount } from './wallets.ts'
import type { World } from './world.ts'

/** The store as a process of the simulation reaches it. */
export type ReachedStore = Pick<
  DataStore,
  'ledger' | 'leases' | 'mailbox' | 'purchases' | 'sessions' | 'channels' | 'channelBooks'
>

const forgetting = ['forgetResponses', 'forgetSigned', 'forgetDelivered'] as const
/** Statements that write. */
const writes = {
  ledger: ['claim', 'apply', 'applyAll', 'adopt', 'putOff', ...forgetting],
  leases: ['take', 'renew', 'release'],
  sessions: ['cancel', 'expire'],
  channels: ['open', 'take', 'charge', 'update', 'noteRefund', 'release', 'park'],
  channelBooks: ['book', 'addEvents'],
} as const
/** A process keeps what it has by these, and forgets what is not needed: they say nothing of its work. */
const keeping = ['renew', 'take', 'forgetSigned', 'forgetDelivered']
/** What is no news unless it did something. */
const polls = [
  'due',
  'renew',
  'find',
  'list',
  'adopt',
  ...forgetting,
  'holderOf',
  'hear',
  'book',
  'addEvents',
]
const quiet = ['openAttempts', 'prune', 'channels.unclaimed', 'channels.payouts']

/**
 * The ways of processes to their store: each statement has a way there and one back, and either may fail, so that its caller hears
 * an error of what was done, or was not. A server can be away between any two statements, and come back without what it had not
 * written to its log.
 */
export class StoreLinks {
  /** Claims that were won, as the store has them. */
  readonly claims: Claim[] = []
  /** Statements that wrote something, other than to keep a lease. */
  written = 0
  readonly #world: World
  readonly #mailbox: MessageTable
  /** Processes that stood still, or had no store, for so long that their lease was over. */
  readonly #lapsed = new Set<string>()
  /** The settling key had a holder. */
  #isHeldBefore = false
  readonly #renewedAtMs = new Map<number, number>()
  /** A machine that reboots, with its clock. */
  #boot = 0
  #bootedAtMs = 0
  /** A server that restarts, whose clock is the machine's. */
  #restart = 0
  /** Until then the store is full, slow, or away. */
  #fullUntilMs = 0
  #slowUntilMs = 0
  #unavailableUntilMs = 0

  constructor(world: World) {
    this.#world = world
    this.#mailbox = createMessageTable({
      scheduler: world.scheduler,
      fails: (probability) => world.fails(probability),
      see: (situation) => void world.seen.add(situation),
      run: (owner, name, statement) =>
        this.#pass(owner as GatewayProcess, name, name === 'post', statement, []),
    })
  }

  /** Time of leases and due times: a machine's, from its last start on. */
  get nowMs(): number {
    return this.#world.scheduler.nowMs - this.#bootedAtMs + 5_000
  }

  of(process: GatewayProcess): ReachedStore {
    const { store, plant } = this.#world
    const ledger = plant?.ledger?.(store.ledger) ?? store.ledger
    const leases = plant?.leases?.(store.leases) ?? store.leases
    const mailbox = this.#mailbox.of(process)
    const channels = plant?.channels?.(store.channels) ?? store.channels
    const channelBooks = plant?.channelBooks?.(store.channelBooks, store.execute) ?? store.channelBooks
    return {
      ledger: this.#faulty(ledger, process, writes.ledger),
      leases: this.#faulty(leases, process, writes.leases),
      mailbox: plant?.mailbox?.(mailbox) ?? mailbox,
      purchases: this.#faulty(store.purchases, process, []),
      sessions: this.#faulty(store.sessions, process, writes.sessions),
      channels: this.#faulty(channels, process, writes.channels, 'channels.'),
      channelBooks: this.#faulty(channelBooks, process, writes.channelBooks),
    }
  }

  /** Writes in progress are reported to no process: their process ends with the machine. */
  booted(): void {
    this.#boot++
    this.#bootedAtMs = this.#world.scheduler.nowMs
    this.#mailbox.restarted()
  }

  /** The server ends and comes back, while its clients live: what was `visible` only may be gone. */
  restart(): void {
    const { scheduler, store, processes } = this.#world
    this.#restart++
    this.#unavailableUntilMs = scheduler.nowMs + scheduler.between(200, 4_000)
    const isCrash = scheduler.chance(0.5)
    if (isCrash) {
      store.powerCut()
      this.#world.seen.add('the server crashes')
      // Renewals are gone as well.
      for (const { name } of processes) this.#lapsed.add(name)
    }
    this.#mailbox.restarted()
    this.#world.tell(isCrash ? 'the server crashes' : 'the server restarts')
  }

  /** Full for a while, or slow. */
  trouble(): void {
    const { scheduler } = this.#world
    const untilMs = scheduler.nowMs + scheduler.between(500, 8_000)
    if (scheduler.chance(0.5)) this.#fullUntilMs = untilMs
    else this.#slowUntilMs = untilMs
    this.#world.tell('store in trouble')
  }

  calm(): void {
    this.#fullUntilMs = this.#slowUntilMs = this.#unavailableUntilMs = 0
  }

  hasLapsed({ name }: Owner): boolean {
    return this.#lapsed.has(name)
  }

  /** @param noun before the names of statements that another noun has too */
  #faulty<T extends object>(real: T, process: GatewayProcess, writing: readonly string[], noun = ''): T {
    const wrapped = Object.entries(real).map(([name, operation]) => [
      name,
      (...args: unknown[]) =>
        this.#pass(
          process,
          noun + name,
          writing.includes(name),
          () => (operation as (...args: unknown[]) => unknown)(...args),
          args,
        ),
    ])
    return Object.fromEntries(wrapped) as T
  }

  #pass(
    process: GatewayProcess,
    name: string,
    isWrite: boolean,
    operation: () => unknown,
    args: unknown[],
  ): Promise<unknown> {
    const world = this.#world
    const { scheduler } = world
    const [boot, restart] = [this.#boot, this.#restart]
    const slowMs = () =>
      scheduler.nowMs < this.#slowUntilMs
        ? scheduler.between(200, 4_000)
        : scheduler.between(0, isWrite ? 4 : 1)
    return new Promise((resolve, reject) => {
      const respond = (give: () => void) => void scheduler.at(slowMs(), process, give)
      const away = () => respond(() => reject(new TollgateError('store_unavailable')))
      const happens = async () => {
        // What a process that was killed had handed over already may still be done; not after the power was cut.
        if (boot !== this.#boot || (process.isDead && scheduler.chance(0.5))) return
        const isFull = isWrite && scheduler.nowMs < this.#fullUntilMs
        if (scheduler.nowMs < this.#unavailableUntilMs || isFull || world.fails(0.006)) return away()
        try {
          const result = await operation()
          this.#note(name, isWrite, args, result, process)
          // It was committed, and the connection is gone: the caller gets the same error as if it was not.
          if (world.fails(0.006)) return away()
          respond(() => {
            if (this.#restart === restart) return resolve(result)
            world.seen.add('an answer of the server is lost')
            reject(unavailable())
          })
        } catch (error) {
          world.tell(name, args, error instanceof Error ? error.message : error)
          respond(() => reject(error))
        }
        if (isWrite && ['claim', 'apply', 'post', 'channels.open', 'channels.charge'].includes(name))
          world.hazard(process)
      }
      scheduler.at(slowMs(), null, () => void scheduler.as(process, happens))
    })
  }

  #noteHolder(): void {
    const { seen, chain } = this.#world
    if (this.#isHeldBefore) seen.add('another gateway takes over the key')
    if (this.#isHeldBefore && chain.isWaiting(settlingAccount))
      seen.add('a key changes hands while a transaction waits')
    this.#isHeldBefore = true
  }

  #note(name: string, isWrite: boolean, args: unknown[], result: unknown, process: GatewayProcess): void {
    const world = this.#world
    const isNothing = result === false || result === 0 || (name === 'putOff' && (args[0] as []).length === 0)
    if (isWrite && !keeping.includes(name) && !isNothing) this.written++
    if (name === 'channels.charge' && result === true)
      world.channels!.charges.push({
        ...(args[0] as ChannelCharge),
        by: process,
        atMs: world.scheduler.nowMs,
      })
    if (name === 'channels.take' && result !== undefined && 'channel' in (result as object))
      world.channels!.taken.push({ id: args[0] as string, by: process, atMs: world.scheduler.nowMs })
    if (name === 'claim' && (result as { won: boolean }).won) {
      const { key, purchaseId } = args[0] as Claim
      this.claims.push({ key, purchaseId, atMs: world.scheduler.nowMs })
      void world.judgeIdentifier(key)
    }
    if (name === 'apply' && result === true && (args[0] as PaymentChange).attempt != null) world.onAttempt()
    if (name === 'applyAll')
      for (const [i, { to, errorReason }] of (args[0] as readonly PaymentChange[]).entries())
        if (errorReason === neverSent && (result as boolean[])[i])
          world.seen.add(
            to === 'rejected' ? 'what was never sent is free again' : 'what several share is never sent',
          )
    if (name === 'renew') {
      const [{ id }, ttlMs] = args as [Lease, number]
      if (world.scheduler.nowMs - (this.#renewedAtMs.get(id) ?? Infinity) > ttlMs)
        this.#lapsed.add(process.name)
      this.#renewedAtMs.set(id, world.scheduler.nowMs)
    }
    if (name === 'take' && result !== undefined) {
      const lease = result as Lease
      this.#renewedAtMs.set(lease.id, world.scheduler.nowMs)
      if (lease.name.startsWith('settle:')) this.#noteHolder()
    }
    if (world.trace === null || quiet.includes(name)) return
    if (!polls.includes(name) || Number(result) > 0) world.tell(name, process.name, args, result)
  }
}

const unavailable = () => new TollgateError('store_unavailable')
