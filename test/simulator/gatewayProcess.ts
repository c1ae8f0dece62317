import { createEvmSettler } from '../../adapters/chains/evm/settler.ts'
import { createAnswerMemory } from '../../adapters/memory/answerMemory.ts'
import { createMemoryCounters } from '../../adapters/memory/counters.ts'
import { createSealer } from '../../adapters/secrets/createSealer.ts'
import { createKeyHolder } from '../../cli/runtime/keys/keyHolder.ts'
import { createKeySharing } from '../../cli/runtime/keys/keySharing.ts'
import { forgetConcludedNowAndThen } from '../../cli/runtime/open/forgetConcluded.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { ServedLink } from '../../core/domain/link.ts'
import { buildGeneration, type Generation } from '../../core/kernel/generation.ts'
import { transferScheme } from '../../core/payments/bookTransfer.ts'
import { createPayments } from '../../core/payments/engine.ts'
import { type HeldLease, holdLease } from '../../core/payments/heldLease.ts'
import type { Payments } from '../../core/payments/payments.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { createRecovery, type Recovery } from '../../core/payments/recovery.ts'
import { createTransferWatch } from '../../core/payments/transferWatch.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { GatewayPorts } from '../../core/plugin/ports.ts'
import type { Settler } from '../../core/ports/chains/settler.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { newCalls, runCall } from '../../gateway/call.ts'
import purchaseRecord from '../../plugins/purchase-record/index.ts'
import replayGuard from '../../plugins/replay-guard/index.ts'
import x402 from '../../plugins/x402/index.ts'
import { testNetwork } from '../helpers/settler.ts'
import { type Chain, Chain as ChainTime } from './chain.ts'
import type { EvmNode } from './evmNode.ts'
import type { Plant } from './plant.ts'
import type { Owner, Scheduler } from './scheduler.ts'
import { type SellerParts, sellerPlugin } from './seller.ts'
import { createSessionDesk, type SessionDesk } from './sessions/sessionDesk.ts'
import { type ChainFaults, createSimulatedSettler } from './settler.ts'
import type { ReachedStore } from './storeWays.ts'
import { createSimulatedTransferProofs } from './transferProofs.ts'
import { settlingKey } from './wallets.ts'

export interface ProcessParts {
  readonly scheduler: Scheduler
  readonly chain: Chain
  readonly faults: ChainFaults
  readonly seller: SellerParts
  /** Where all settle with one EVM key: whom their settlers ask. */
  readonly node: EvmNode | undefined
  /** The store as this process reaches it. */
  reach(owner: GatewayProcess): ReachedStore
  /** What every call and every session costs, in the smallest unit. */
  readonly price: number
  /** How long a payment waits for others that it is settled with, in ms. */
  readonly gatherMs: number
  /** A mistake of a test. */
  readonly plant: Plant | undefined
  /** The attempt of this payment is stored, and goes to the chain now. */
  onSending(key: string): Promise<void>
  /** A hook that read or wrote a slot which its plugin had not declared. */
  onMisuse(error: Error): void
}

const sealer = createSealer(Buffer.alloc(32, 7))

/** A gateway process: real plugins, engine, lease and recovery, over a store, a chain and a seller of the simulation. */
export class GatewayProcess implements Owner {
  readonly name: string
  isDead = false
  frozenUntilMs = 0
  /** What its wall clock is ahead of the true time, in ms, and how much it gains a ms. */
  clockAheadMs = 0
  clockDrift = 0
  lease: HeldLease | undefined
  payments: Payments | undefined
  recovery: Recovery | undefined
  desk: SessionDesk | undefined
  /** The way to the chain that its calls take. */
  settler: Settler | undefined
  /** It takes calls. */
  isUp = false
  readonly #parts: ProcessParts
  readonly #stopped = new AbortController()
  readonly #left = new AbortController()
  #generation: Generation | undefined

  constructor(name: string, parts: ProcessParts) {
    this.name = name
    this.#parts = parts
  }

  readonly clock: Clock = {
    now: () => {
      const { nowMs } = this.#parts.scheduler
      return Math.floor(ChainTime.timeOf(nowMs) + this.clockAheadMs + nowMs * this.clockDrift)
    },
  }

  /** Starts it, as often as it takes: a store may be away. */
  async start(): Promise<void> {
    const { scheduler, chain, faults, reach } = this.#parts
    const { clock } = this
    const log = silentLog
    const store = reach(this)
    const { books, leases, purchases, sessions } = store
    const lease = await insist(scheduler, () => holdLease(leases, `process:${this.name}`, log))
    this.lease = lease
    const { settler, run } = await this.#openSettler(store)
    this.settler = settler
    const transferProofs = createSimulatedTransferProofs(chain, scheduler, faults)
    const transfers = createTransferWatch(transferProofs, clock)
    const chains = {
      assets: builtInAssets.filter((asset) => asset.network === testNetwork),
      settlers: [settler],
      settler: (network: string) => (network === testNetwork ? settler : undefined),
    }
    const notes = createPurchaseNotes(sealer, '_svc')
    const payments = createPayments({ books, chains, notes, lease, clock, log })
    this.payments = payments
    const ports = {
      // Every call is of a link that is there.
      links: { find: async () => undefined } as Partial<GatewayPorts['links']> as GatewayPorts['links'],
      ...{ clock, log, sealer, payments, chains, purchases },
      figures: { addTraffic: async () => {} } as Partial<GatewayPorts['figures']> as GatewayPorts['figures'],
      service: {
        ...{ publicUrl: 'http://gateway.test', name: 'Tollgate', metadataField: '_svc' },
        ...{ instanceId: this.name, runsJobs: true },
      },
      answerMemory: createAnswerMemory(),
      counters: createMemoryCounters(),
    } as Partial<GatewayPorts> as GatewayPorts
    const entries = [
      { plugin: x402, options: { maxTimeoutSeconds: 300, acceptV1: true, legacyBody: false } },
      {
        plugin: replayGuard,
        options: { maxBodyBytes: 1_000, joinTimeoutMs: 20_000, replayWindowMs: 900_000 },
      },
      { plugin: sellerPlugin(this.#parts.seller), options: {} },
      { plugin: purchaseRecord, options: { viewsFlushMs: 60_000 } },
    ]
    this.#generation = await buildGeneration(entries, ports, {
      onSlotMisuse: this.#parts.onMisuse,
      // Turns of the real loop are none of the scheduler's.
      nextTurn: async () => {},
    })
    const underWay = this.#parts.plant?.isNothingUnderWay
      ? { isUnderWay: () => false, withhold: () => () => {} }
      : payments
    this.recovery = createRecovery(
      {
        ...{ books, leases, purchases, sessions, notes, lease, clock, log, payments: underWay },
        // The simulated chain keeps every refund.
        refundProofs: { prove: async () => ({ status: 'proved', paymentKeys: [] }) },
        chains: {
          ...chains,
          settler: (_: string, scheme: string) => (scheme === transferScheme ? transfers : settler),
        },
      },
      // What nobody needs is forgotten at once here, so that it shows who does.
      { keepSignedMs: 0 },
    )
    this.desk = createSessionDesk({
      ...{ books, sessions, purchases, payments, transferProofs, settler },
      ...{ chains, notes, lease, clock, log, price: this.#parts.price },
    })
    void this.recovery.run(this.#stopped.signal)
    void run()
    this.isUp = true
  }

  /** As cli/runtime has it: what settles, and what keeps its key until the process is left. */
  async #openSettler({
    books,
    leases,
    letters,
  }: ReachedStore): Promise<{ settler: Settler; run: () => Promise<void> }> {
    const { scheduler, chain, faults, node, onSending } = this.#parts
    const { clock } = this
    const log = silentLog
    if (node === undefined) {
      const settler = createSimulatedSettler(chain, scheduler, clock, faults, onSending)
      await insist(scheduler, async () => settler.start(await books.openAttempts(settler.id)))
      return { settler, run: async () => {} }
    }
    const keys = createKeySharing({ letters, leases, lease: this.lease!, log })
    const assets = builtInAssets.filter((asset) => asset.network === testNetwork)
    const nodes = { rpcUrls: ['http://node.test'], ask: node.ask, staleHeadMs: Infinity }
    const own = createEvmSettler({
      ...{ network: testNetwork, privateKeys: [settlingKey], assets, ...nodes, clock, log, needsStart: true },
      gatherMs: this.#parts.gatherMs,
    })
    const settler = keys.wrap(this.#parts.plant?.settler?.(own) ?? own)
    const holder = createKeyHolder(settler, { books, leases, keys, log })
    await holder.begin()
    const endForgetting = forgetConcludedNowAndThen({ settlers: [settler] }, books, log)
    const run = async () => {
      await holder.run(this.#left.signal)
      await endForgetting()
    }
    return { settler, run }
  }

  call(x: Exchange, link: ServedLink): void {
    const generation = this.#generation!
    const program = generation.compile(link)
    this.#parts.scheduler.as(this, () => runCall(x, program, generation, newCalls(silentLog)))
  }

  /** Runs them once more. @returns a function that ends them */
  startLoops(): () => void {
    const stopped = new AbortController()
    this.#parts.scheduler.as(this, () => void this.recovery!.run(stopped.signal))
    return () => stopped.abort()
  }

  /** Ends the loops of its recovery; whoever wants rounds asks for them from here on. */
  stopLoops(): void {
    this.#stopped.abort()
  }
}

async function insist<T>(scheduler: Scheduler, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch {
      await scheduler.wait(500)
    }
  }
}
