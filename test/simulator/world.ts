import { type PaymentState, unresolvedStates } from '../../core/domain/payment.ts'
import type { Session } from '../../core/domain/session.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Asked, Signed } from './buyers.ts'
import { PRICE } from './buyers.ts'
import { type Authorisation, Chain } from './chain.ts'
import { ChannelScene, hasChannels } from './channels/scene.ts'
import { createEvmNode, type EvmNode } from './evmNode.ts'
import { GatewayProcess } from './gatewayProcess.ts'
import type { Plant } from './plant.ts'
import type { Owner, Scheduler } from './scheduler.ts'
import type { Run } from './seller.ts'
import type { Sent } from './sessions/sessionTraffic.ts'
import type { Clocks, SharedStore } from './store.ts'
import { StoreLinks } from './storeLinks.ts'
import { statementOf } from './use/metering.ts'
import { settlingAccount } from './wallets.ts'

/** What seeds are made for. */
export const situations = [
  'several payments in one transaction',
  'one of several left out',
  'one of several sent by another party before',
  'a transaction of several leaves the chain',
  'what was signed is taken back on chain',
  'one of several taken back by its payer before',
  'a waiting transaction is forgotten',
  'what several share is never sent',
  'what was never sent is free again',
  'another party signs with the key',
  'another gateway takes over the key',
  'a key changes hands while a transaction waits',
  'a letter is lost',
  'a letter comes twice',
  'a notice is lost',
  'the server crashes',
  'an answer of the server is lost',
  'an answer is never collected',
  'an id is taken from a payment that can never land',
  'a refund leaves the chain',
  'a refund that left the chain returns beside another one',
  'a call is charged less than the most',
  'a call that costs nothing is sold',
  'a buyer leaves a stream',
  'a stream breaks off before its use is said',
  'a stream breaks off after its use was said',
  'a stream is charged nothing, because its process died',
  'a deposit leaves the chain',
  'a claim leaves the chain',
  'a payer withdraws',
  'a claim races a withdrawal',
  'a response of a channel is lost with its process',
] as const

export type Situation = (typeof situations)[number]

/** Everything of one seed: two or three processes on one store, a chain, sellers and buyers. */
export class World {
  /** While true, anything may fail. */
  isFaulty = true
  readonly scheduler: Scheduler
  /** The processes settle with one EVM key, by the settler that has it; otherwise by one that any of them may have. */
  readonly isShared: boolean
  readonly chain: Chain
  readonly node: EvmNode
  readonly ways: StoreLinks
  /** What was signed for the real settler, by key. */
  readonly authorisations = new Map<string, Authorisation>()
  readonly requests: Asked[] = []
  readonly runs: Run[] = []
  readonly sessions: Session[] = []
  /** What is signed for the sessions, each for one of them; a buyer may try it on another session. */
  readonly signedForSessions: Signed[] = []
  readonly sent: Sent[] = []
  /** Payment channels, in a seed that has some. */
  readonly channels: ChannelScene | undefined
  /** Payments with an id of their buyer, which another payment has too. */
  readonly named: Signed[] = []
  /** The latest process of each of the two; one that is dead is started again some time later. */
  readonly processes: GatewayProcess[] = []
  /** Claims whose calls have ended without knowing that they are charged. */
  readonly unsettled = new Set<string>()
  /** Every lease under which a process died. */
  readonly deadLeases = new Set<number>()
  /** Transfers back by sellers: whose payment each is meant for. */
  readonly paidBack = new Map<string, string>()
  /** Transfers back that are off the chain, each until then, in virtual ms. */
  readonly offChainUntilMs = new Map<string, number>()
  /** What this seed has shown: the judge of many seeds can tell what they covered. */
  readonly seen = new Set<Situation>()
  /** What was refused or broke that may never do so. */
  misuse: Error | undefined
  /** The actions, for the reader of a failed seed. */
  readonly trace: string[] | null
  store!: SharedStore
  readonly plant: Plant | undefined
  /** How much of it there is: each seed has its own, because what hides another fault is a fault as well. */
  readonly #trouble: number
  readonly #hazards: { readonly kill: number; readonly freeze: number; readonly powerCut: number }
  /** How long sellers work in this seed, at most, in ms: many who end together are settled together. */
  readonly #workMs: number
  readonly #batchWindowMs: number
  #started = 0

  constructor(scheduler: Scheduler, isShared: boolean, plant: Plant | undefined, isTraced: boolean) {
    this.isShared = isShared
    this.scheduler = scheduler
    this.trace = isTraced ? [] : null
    this.plant = plant
    this.#trouble = scheduler.pick([0, 0.5, 1, 3])
    const hazard = () => scheduler.pick([0, 0, 0.02, 0.1])
    this.#hazards = { kill: hazard(), freeze: hazard(), powerCut: hazard() }
    this.#workMs = isShared ? scheduler.pick([20, 60, 1_500]) : 1_500
    this.#batchWindowMs = scheduler.pick([5, 50, 200])
    this.chain = new Chain(scheduler, {
      tell: (...what) => this.tell(...what),
      see: (situation) => void this.seen.add(situation),
    })
    this.channels = hasChannels(scheduler.seed) ? new ChannelScene(this) : undefined
    this.ways = new StoreLinks(this)
    this.node = createEvmNode({
      ...{ chain: this.chain, scheduler, faults: this, account: settlingAccount },
      signed: this.authorisations,
      onBroadcast: (hash, keys) => {
        this.tell(
          'broadcast',
          hash.slice(0, 8),
          keys.map((key) => key.slice(0, 6)),
        )
        for (const key of keys) void this.#judgeSending(key)
        const { owner } = scheduler
        if (owner instanceof GatewayProcess) this.hazard(owner)
      },
    })
  }

  /** People's time of the database's caller, and the machine's, which restarts when the power comes back. */
  get clocks(): Clocks {
    const wall: Clock = {
      now: () => {
        const { owner, nowMs } = this.scheduler
        return owner instanceof GatewayProcess ? owner.clock.now() : Chain.timeOf(nowMs)
      },
    }
    return { wall, store: { now: () => this.ways.nowMs } }
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
    const record = await this.store.ledger.find(key)
    // Another process has concluded it meanwhile.
    if (record?.sessionId == null || record.state !== 'settling') return
    const session = await this.store.sessions.find(record.sessionId)
    if (session?.paymentRow !== record.row)
      this.misuse ??= new Error(`${key} is sent for session ${record.sessionId}, and does not hold it`)
  }

  /** No two open payments wait for two transactions with the same nonce, even if two processes believe they hold the lease. */
  onAttempt(): void {
    if (!this.isShared) return
    const states = [...unresolvedStates, 'reorged'] as const
    void this.store.ledger.list({ states, limit: 100 }).then((open) => {
      const bytesOf = new Map<number, string>()
      for (const { attempt } of open) {
        if (attempt === null || attempt.bytes === '') continue
        const number = this.node.numberOf(attempt.bytes)
        if ((bytesOf.get(number) ?? attempt.bytes) !== attempt.bytes)
          this.misuse ??= new Error(`two transactions of open payments have the nonce ${number}`)
        bytesOf.set(number, attempt.bytes)
      }
    })
  }

  /** A payment was claimed: of the others with its id none is charged, or may be. */
  async judgeIdentifier(key: string): Promise<void> {
    const identifier = this.named.find((one) => one.key === key)?.identifier
    if (identifier === undefined) return
    for (const other of this.named) {
      if (other.identifier !== identifier || other.key === key) continue
      const record = await this.store.ledger.find(other.key)
      const state = record?.state
      if (state === undefined || state === 'rejected') continue
      // It has no transfer that could leave the chain, so its id is forgotten here as soon as it is delivered.
      if (state === 'delivered' && record?.chargedAtomic === 0n) continue
      if (state === 'failed_final') this.seen.add('an id is taken from a payment that can never land')
      else this.misuse ??= new Error(`${other.nonce} is ${state}, and another payment with its id is claimed`)
    }
  }

  /** Starts the process of a place, or the next one after a death. */
  start(place: number): GatewayProcess {
    const process = new GatewayProcess(`${'ABC'[place]}${++this.#started}`, {
      ...{ scheduler: this.scheduler, chain: this.chain, faults: this },
      seller: {
        ...{ scheduler: this.scheduler, runs: this.runs, workMs: this.#workMs },
        fails: (probability) => this.fails(probability),
        stateUse: (isStreamed) => statementOf(this, isStreamed),
        tell: (...what) => this.tell(...what),
      },
      reach: (owner) => this.ways.of(owner),
      node: this.isShared ? this.node : undefined,
      channels: this.channels,
      fails: (probability) => this.fails(probability),
      onClaims: (owner) => this.hazard(owner),
      price: PRICE,
      plant: this.plant,
      batchWindowMs: this.#batchWindowMs,
      onSending: (key) => this.#judgeSending(key),
      onUnsettled: (purchaseId) => void this.unsettled.add(purchaseId),
      isOnChain: (refund) => this.isOnChain(refund),
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
    // No client is reached from it any more: its buyers' connections are gone.
    for (const { transport, process: of } of this.requests) if (of === process) transport.isClosed = true
    for (const request of this.channels?.requests ?? []) if (request.process === process) request.lose()
    this.scheduler.at(this.scheduler.between(200, 15_000), null, () => {
      if (this.processes[place] === process) this.start(place)
    })
  }

  /** Everything that runs on the machine is over, and what was not on disk is gone. */
  powerCut(): void {
    this.tell('power cut')
    for (const process of this.processes) this.kill(process)
    this.store.powerCut()
    this.ways.booted()
  }

  freeze(process: GatewayProcess, ms: number): void {
    if (process.isDead) return
    this.tell('freeze', process.name, ms)
    process.frozenUntilMs = Math.max(process.frozenUntilMs, this.scheduler.nowMs + ms)
  }

  /** It died, or stood still or had no store for so long that its lease was over. */
  wasTakenForDead(process: Owner): boolean {
    if (!(process instanceof GatewayProcess)) return false
    return process.isDead || process.lease === undefined || this.ways.hasLapsed(process)
  }

  /** @returns the transaction */
  payBack({ nonce }: Signed): string {
    const transaction = `0x${'b'.repeat(8)}${this.paidBack.size.toString(16).padStart(56, '0')}`
    this.paidBack.set(transaction, nonce)
    return transaction
  }

  isOnChain(refund: { readonly transaction: string }): boolean {
    return this.scheduler.nowMs >= (this.offChainUntilMs.get(refund.transaction) ?? 0)
  }

  get hasReorganised(): boolean {
    return this.chain.hasReorganised
  }

  /** From here on nothing fails any more. */
  calm(): void {
    this.tell('calm')
    this.isFaulty = false
    this.chain.isFaulty = false
    if (this.channels !== undefined) this.channels.contract.isFaulty = false
    this.ways.calm()
    for (const process of this.processes) this.scheduler.thaw(process)
  }

  /** A step of a payment is where it hurts most. */
  hazard(process: GatewayProcess): void {
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

export const closedStates: readonly PaymentState[] = [
  ...(['delivered', 'refund_due', 'refunded', 'failed_final', 'rejected'] as const),
]
