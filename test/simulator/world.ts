import { hash } from 'node:crypto'
import { type PaymentState, transferKey } from '../../core/domain/payment.ts'
import { SESSION_LIFETIME_MS, type Session } from '../../core/domain/session.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Lease } from '../../core/ports/leases.ts'
import type { DataStore } from '../../core/ports/store.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import { callThrough, MemoryDoor } from '../helpers/memoryDoor.ts'
import { testAsset, testNetwork } from '../helpers/settler.ts'
import { Chain } from './chain.ts'
import { GatewayProcess } from './gatewayProcess.ts'
import type { Plant } from './plant.ts'
import type { Owner, Scheduler } from './scheduler.ts'
import type { Run } from './seller.ts'
import type { SessionDesk } from './sessionDesk.ts'
import type { Clocks, SharedStore } from './store.ts'

/** What every call and every session costs, in the smallest unit. */
export const PRICE = 100_000

/** A payment that a buyer has signed. */
export interface Signed {
  readonly nonce: string
  readonly payer: string
  readonly key: string
  readonly validBeforeMs: number
  /** The call that it is meant for: 0 is charged after the answer, 1 before. Of a session's it is none: -1. */
  readonly link: number
  readonly header: string
}

/** A plain transfer that somebody sent for a session, of its price or of another amount. */
export interface Sent {
  readonly nonce: string
  readonly transaction: string
  readonly key: string
  readonly isExact: boolean
  readonly session: Session
}

/** One call of a buyer, for the judgement in the end. */
export interface Asked {
  readonly payment: Signed
  readonly link: number
  readonly path: string
  readonly what: string
  readonly door: MemoryDoor
  readonly x: Exchange
  readonly process: GatewayProcess
  /** The lease that its process had. */
  readonly lease: number
  readonly startedAtMs: number
  /** Virtual time at which the answer was whole. */
  gotAtMs: number
}

/** A claim that was won, as the store has it. */
export interface Claim {
  readonly key: string
  readonly purchaseId: string
  readonly atMs: number
}

/** Everything of one seed: two processes on one store, a chain, sellers and buyers. */
export class World {
  /** While true, anything may fail. */
  isFaulty = true
  readonly scheduler: Scheduler
  readonly chain: Chain
  readonly asked: Asked[] = []
  readonly claims: Claim[] = []
  readonly runs: Run[] = []
  readonly sessions: Session[] = []
  /** What is signed for the sessions, each for one of them; nobody keeps a buyer from trying it on another one. */
  readonly signedForSessions: Signed[] = []
  readonly sent: Sent[] = []
  /** The latest process of each of the two; one that is dead is started again some time later. */
  readonly processes: GatewayProcess[] = []
  /** Every lease under which a process died. */
  readonly deadLeases = new Set<number>()
  /** Processes that stood still, or had no store, for so long that their lease was over. */
  readonly #lapsed = new Set<string>()
  readonly #renewedAtMs = new Map<number, number>()
  /** Transfers back by sellers: whose payment each is meant for. */
  readonly paidBack = new Map<string, string>()
  /** What was refused or broke that may never do so. */
  misuse: Error | undefined
  /** What was done, for whoever reads a failed seed. */
  readonly trace: string[] | null
  store!: SharedStore
  readonly #plant: Plant | undefined
  /** How much of it there is: each seed has its own, because what hides another fault is a fault as well. */
  readonly #trouble: number
  readonly #hazards: { readonly kill: number; readonly freeze: number; readonly powerCut: number }
  #bootedAtMs = 0
  #boot = 0
  #started = 0
  /** Until then the store is full, or slow. */
  #fullUntilMs = 0
  #slowUntilMs = 0

  constructor(scheduler: Scheduler, plant: Plant | undefined, isTraced: boolean) {
    this.scheduler = scheduler
    this.trace = isTraced ? [] : null
    this.#plant = plant
    this.#trouble = scheduler.pick([0, 0.5, 1, 3])
    const hazard = () => scheduler.pick([0, 0, 0.02, 0.1])
    this.#hazards = { kill: hazard(), freeze: hazard(), powerCut: hazard() }
    this.chain = new Chain(scheduler, (...what) => this.tell(...what))
  }

  /** People's time of whoever asks the store, and the machine's, which starts anew when the power comes back. */
  get clocks(): Clocks {
    const wall: Clock = {
      now: () => {
        const { owner, nowMs } = this.scheduler
        return owner instanceof GatewayProcess ? owner.clock.now() : Chain.timeOf(nowMs)
      },
    }
    return { wall, store: { now: () => this.scheduler.nowMs - this.#bootedAtMs + 5_000 } }
  }

  /** @param probability in a seed of middling trouble */
  fails(probability: number): boolean {
    return this.isFaulty && this.scheduler.chance(probability * this.#trouble)
  }

  tell(...what: unknown[]): void {
    if (this.trace === null) return
    const short = (value: unknown) => {
      const text = typeof value === 'string' ? value : (JSON.stringify(value, plain) ?? '')
      return text.length > 400 ? `${text.slice(0, 400)}…` : text
    }
    const who = this.scheduler.owner?.name ?? ''
    this.trace.push(`${this.scheduler.nowMs} ${who} ${what.map(short).join(' ')}`)
  }

  /** What is sent for a session holds it: of two buyers at once one is charged. */
  async #judgeSending(key: string): Promise<void> {
    const record = await this.store.books.find(key)
    // Somebody else has concluded it meanwhile.
    if (record?.sessionId == null || record.state !== 'settling') return
    const session = await this.store.sessions.find(record.sessionId)
    if (session?.paymentRow !== record.row)
      this.misuse ??= new Error(`${key} is sent for session ${record.sessionId}, and does not hold it`)
  }

  /** Starts the process of a place, or the next one after a death. */
  start(place: number): GatewayProcess {
    const process = new GatewayProcess(`${'AB'[place]}${++this.#started}`, {
      ...{ scheduler: this.scheduler, chain: this.chain, faults: this },
      seller: {
        ...{ scheduler: this.scheduler, runs: this.runs },
        fails: (probability) => this.fails(probability),
        tell: (...what) => this.tell(...what),
      },
      reach: (owner) => this.#reach(owner),
      price: PRICE,
      isNothingUnderWay: this.#plant?.isNothingUnderWay === true,
      onSending: (key) => this.#judgeSending(key),
      onMisuse: (error) => void (this.misuse ??= error),
    })
    process.clockDrift = this.scheduler.pick([0, 0, 1e-4, -1e-4])
    this.processes[place] = process
    this.tell('start', process.name)
    void this.scheduler.as(process, () => process.start())
    return process
  }

  kill(process: GatewayProcess): void {
    if (process.isDead) return
    this.tell('kill', process.name)
    process.isDead = true
    const place = this.processes.indexOf(process)
    if (process.lease !== undefined) this.deadLeases.add(process.lease.current.id)
    // Nobody hears from it any more: its buyers' connections are gone.
    for (const { door, process: of } of this.asked) if (of === process) door.isClosed = true
    this.scheduler.at(this.scheduler.between(200, 15_000), null, () => {
      if (this.processes[place] === process) this.start(place)
    })
  }

  /** Everything that runs on the machine is over, and what was not on disk is gone. */
  powerCut(): void {
    const { store } = this
    if (store.powerCut === undefined) return
    this.tell('power cut')
    for (const process of this.processes) this.kill(process)
    store.powerCut()
    this.#boot++
    this.#bootedAtMs = this.scheduler.nowMs
  }

  freeze(process: GatewayProcess, ms: number): void {
    if (process.isDead) return
    this.tell('freeze', process.name, ms)
    process.frozenUntilMs = Math.max(process.frozenUntilMs, this.scheduler.nowMs + ms)
  }

  /** The store is full for a while, or slow. */
  troubleStore(): void {
    const { nowMs } = this.scheduler
    if (this.scheduler.chance(0.5)) this.#fullUntilMs = nowMs + this.scheduler.between(500, 8_000)
    else this.#slowUntilMs = nowMs + this.scheduler.between(500, 8_000)
    this.tell('store in trouble')
  }

  /** It died, or stood still or had no store for so long that its lease was over. */
  wasTakenForDead(process: Owner): boolean {
    if (!(process instanceof GatewayProcess)) return false
    return process.isDead || process.lease === undefined || this.#lapsed.has(process.name)
  }

  /** @returns the transaction */
  payBack({ nonce }: Signed): string {
    const transaction = `0x${'b'.repeat(8)}${this.paidBack.size.toString(16).padStart(56, '0')}`
    this.paidBack.set(transaction, nonce)
    return transaction
  }

  get hasReorganised(): boolean {
    return this.chain.hasReorganised
  }

  /** From here on nothing fails any more. */
  calm(): void {
    this.tell('calm')
    this.isFaulty = false
    this.chain.isFaulty = false
    this.#fullUntilMs = this.#slowUntilMs = 0
    for (const process of this.processes) this.scheduler.thaw(process)
  }

  sign(nonce: string, payer: string, link: number, validForMs: number): Signed {
    const validBeforeMs = Chain.timeOf(this.scheduler.nowMs) + validForMs
    const header = encodeHeader({
      x402Version: 2,
      accepted: { scheme: 'exact', network: testNetwork, asset: testAsset },
      payload: { payer, nonce, validBeforeMs },
    })
    return { nonce, payer, link, validBeforeMs, header, key: keyOf(payer, nonce) }
  }

  /** A session that its seller asks to be paid. */
  async openSession(lifetimeMs = SESSION_LIFETIME_MS): Promise<void> {
    const createdAtMs = Chain.timeOf(this.scheduler.nowMs)
    const id = `00000000-0000-4000-8000-${String(this.sessions.length).padStart(12, '0')}`
    const storeId = this.store.links[0]!.storeId
    const session = await this.store.sessions.create({
      ...{ id, storeId, linkId: null, secretHash: '', price: '0.10', payout: null, asks: null, title: 't' },
      ...{ description: '', successUrl: null, cancelUrl: null, allowedOrigin: null },
      ...{ clientReferenceId: null, metadata: {}, idempotency: null },
      ...{ createdAtMs, expiresAtMs: createdAtMs + lifetimeMs },
    })
    this.sessions.push(session)
  }

  /** Somebody pays a session from a wallet of their own. */
  send(session: Session, value: number): void {
    const transaction = `0x${hash('sha256', `${this.scheduler.seed} transfer ${this.sent.length}`, 'hex')}`
    const key = transferKey(testNetwork, transaction, 'transfer:0')
    const payer = `0x${this.sent.length.toString(16).padStart(40, '3')}`
    this.chain.topUp(payer, value)
    this.chain.send({
      hash: transaction,
      uses: [{ key, payer, value, validBeforeMs: Infinity, isPlain: true }],
    })
    this.sent.push({
      nonce: `transfer ${this.sent.length}`,
      transaction,
      key,
      session,
      isExact: value === PRICE,
    })
    this.tell('sent', transaction.slice(0, 8), session.id.slice(-2), value)
  }

  /** Somebody asks a process about a session; what they hear comes, or never, when it dies. @returns whether it takes requests */
  atDesk(
    process: GatewayProcess,
    ask: (desk: SessionDesk) => Promise<string>,
    got?: (heard: string) => void,
  ): boolean {
    if (!process.isUp || process.isDead) return false
    const run = () =>
      void ask(process.desk!).then(
        (heard) => {
          this.tell('heard', heard)
          got?.(heard)
        },
        (error: unknown) => {
          this.misuse ??= error as Error
        },
      )
    this.scheduler.at(Math.max(0, process.frozenUntilMs - this.scheduler.nowMs), process, run)
    return true
  }

  /** @returns undefined when the process takes no calls */
  ask(payment: Signed, link: number, path: string, process: GatewayProcess): Asked | undefined {
    if (!process.isUp || process.isDead) return undefined
    const served = this.store.links[link]!
    const door = new MemoryDoor()
    const startedAtMs = this.scheduler.nowMs
    const x = callThrough(door, served, { subPath: path, paymentHeader: payment.header, startedAtMs })
    const what = `${served.slug}${path}`
    const lease = process.lease!.current.id
    const asked: Asked = {
      payment,
      link,
      path,
      what,
      door,
      x,
      process,
      lease,
      startedAtMs,
      gotAtMs: Infinity,
    }
    this.asked.push(asked)
    void door.ended.then((got) => {
      if (got !== undefined) asked.gotAtMs = this.scheduler.nowMs
      this.tell('got', payment.nonce, what, got?.status, got?.body)
    })
    const at = Math.max(0, process.frozenUntilMs - startedAtMs)
    this.tell('ask', payment.nonce, payment.key.slice(0, 6), what, process.name)
    this.scheduler.at(at, process, () => process.call(x, served))
    return asked
  }

  /** The store as one process reaches it: each call has a way there and one back, and either may fail. */
  #reach(process: GatewayProcess): Pick<DataStore, 'books' | 'leases' | 'purchases' | 'sessions'> {
    const { store } = this
    const books = this.#plant?.books?.(store.books) ?? store.books
    return {
      books: this.#faulty(books, process, [
        'claim',
        'apply',
        'applyAll',
        'adopt',
        'putOff',
        'forgetAnswers',
        'forgetSigned',
      ]),
      leases: this.#faulty(store.leases, process, ['take', 'renew', 'release']),
      purchases: this.#faulty(store.purchases, process, []),
      sessions: this.#faulty(store.sessions, process, ['cancel', 'expire']),
    }
  }

  #faulty<T extends object>(real: T, process: GatewayProcess, writes: readonly string[]): T {
    const wrapped = Object.entries(real).map(([name, operation]) => [
      name,
      (...args: unknown[]) =>
        this.#pass(
          process,
          name,
          writes.includes(name),
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
    const { scheduler } = this
    const boot = this.#boot
    const slowMs = () =>
      scheduler.nowMs < this.#slowUntilMs
        ? scheduler.between(200, 4_000)
        : scheduler.between(0, isWrite ? 4 : 1)
    return new Promise((resolve, reject) => {
      const answer = (give: () => void) => void scheduler.at(slowMs(), process, give)
      const away = () => answer(() => reject(new TollgateError('store_unavailable')))
      const happens = async () => {
        // What a process that was killed had handed over already may still be done; not after the power was cut.
        if (boot !== this.#boot || (process.isDead && scheduler.chance(0.5))) return
        const isFull = isWrite && scheduler.nowMs < this.#fullUntilMs
        if (isFull || this.fails(0.006)) return away()
        try {
          const result = await operation()
          this.#note(name, args, result, process)
          if (this.fails(0.006)) away()
          else answer(() => resolve(result))
        } catch (error) {
          this.tell(name, args, error instanceof Error ? error.message : error)
          answer(() => reject(error))
        }
        if (isWrite && (name === 'claim' || name === 'apply')) this.#hazard(process)
      }
      scheduler.at(slowMs(), null, () => void scheduler.as(process, happens))
    })
  }

  #note(name: string, args: unknown[], result: unknown, { name: who }: GatewayProcess): void {
    if (name === 'claim' && (result as { won: boolean }).won) {
      const { key, purchaseId } = args[0] as Claim
      this.claims.push({ key, purchaseId, atMs: this.scheduler.nowMs })
    }
    if (name === 'renew') {
      const [{ id }, ttlMs] = args as [Lease, number]
      if (this.scheduler.nowMs - (this.#renewedAtMs.get(id) ?? Infinity) > ttlMs) this.#lapsed.add(who)
      this.#renewedAtMs.set(id, this.scheduler.nowMs)
    }
    if (name === 'take' && result !== undefined)
      this.#renewedAtMs.set((result as Lease).id, this.scheduler.nowMs)
    const isNews =
      !['due', 'renew', 'find', 'list', 'adopt', 'forgetAnswers', 'forgetSigned'].includes(name) ||
      Number(result) > 0
    if (isNews && this.trace !== null) this.tell(name, who, args, result)
  }

  /** A step of a payment is where it hurts most. */
  #hazard(process: GatewayProcess): void {
    const { scheduler } = this
    if (!this.isFaulty) return
    const { kill, freeze, powerCut } = this.#hazards
    if (scheduler.chance(kill))
      scheduler.at(scheduler.between(0, 6), null, () => this.isFaulty && this.kill(process))
    if (scheduler.chance(freeze)) this.freeze(process, scheduler.between(1_000, 60_000))
    if (scheduler.chance(powerCut))
      scheduler.at(scheduler.between(0, 300), null, () => this.isFaulty && this.powerCut())
  }
}

const plain = (_: string, value: unknown) => {
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Uint8Array || (value as { type?: string } | null)?.type === 'Buffer') return '[bytes]'
  return value
}

function keyOf(payer: string, nonce: string): string {
  return hash('sha256', `${payer}|${nonce}`, 'hex')
}

export const closedStates: readonly PaymentState[] = [
  ...(['delivered', 'refund_due', 'refunded', 'failed_final', 'rejected'] as const),
]
