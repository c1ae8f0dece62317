import { createReceiptSigner } from '../../adapters/chains/evm/receiptSigner.ts'
import { createEvmSettler } from '../../adapters/chains/evm/settler.ts'
import { createMemoryCounters } from '../../adapters/memory/counters.ts'
import { createResponseBuffer } from '../../adapters/memory/responseBuffer.ts'
import { forgetConcludedNowAndThen } from '../../cli/runtime/open/openStack.ts'
import { KeySharing } from '../../cli/runtime/settling/keySharing.ts'
import { createLeaseHolder } from '../../cli/runtime/settling/leaseHolder.ts'
import { startChannelBooking } from '../../core/channels/channelBooking.ts'
import { ChannelCalls } from '../../core/channels/channelCalls.ts'
import { ChannelWatch } from '../../core/channels/channelWatch.ts'
import type { ChannelNetwork } from '../../core/channels/offers.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { ServedLink } from '../../core/domain/link.ts'
import type { Job } from '../../core/jobs/job.ts'
import { buildGeneration, type Generation } from '../../core/kernel/generation.ts'
import { PaymentEngine } from '../../core/payments/engine.ts'
import { type HeldLease, holdLease } from '../../core/payments/leases.ts'
import type { Payments } from '../../core/payments/payments.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { createRecovery, type Recovery } from '../../core/payments/recovery.ts'
import { transferScheme } from '../../core/payments/transfers.ts'
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
import { createSimulatedChannelChain } from './channels/channelChain.ts'
import type { ChannelScene } from './channels/scene.ts'
import type { EvmNode } from './evmNode.ts'
import type { Plant } from './plant.ts'
import type { Owner, Scheduler } from './scheduler.ts'
import { type SellerDeps, sellerPlugin } from './seller.ts'
import { createSessionRoutes, type SessionRoutes } from './sessions/checkout.ts'
import { type ChainFaults, createSimulatedSettler } from './settler.ts'
import type { ReachedStore } from './storeLinks.ts'
import { createSimulatedTransferProofs } from './transferProofs.ts'
import { sealer, settlingKey } from './wallets.ts'

export interface ProcessDeps {
  readonly scheduler: Scheduler
  readonly chain: Chain
  readonly faults: ChainFaults
  readonly seller: SellerDeps
  /** Where all settle with one EVM key: whom their settlers ask. */
  readonly node: EvmNode | undefined
  /** The store as this process reaches it. */
  reach(owner: GatewayProcess): ReachedStore
  /** Payment channels, in a seed that has some. */
  readonly channels: ChannelScene | undefined
  fails(probability: number): boolean
  /** A transaction of channels goes to the chain now. */
  onClaims(owner: GatewayProcess): void
  /** What every call and every session costs, in the smallest unit. */
  readonly price: number
  /** How long a payment waits for others that it is settled with, in ms. */
  readonly batchWindowMs: number
  /** A mistake of a test. */
  readonly plant: Plant | undefined
  /** The attempt of this payment is stored, and goes to the chain now. */
  onSending(key: string): Promise<void>
  /** A call has ended without knowing that it is charged. */
  onUnsettled(purchaseId: string): void
  /** Whether this transfer back is on chain now. */
  isOnChain(refund: { readonly transaction: string }): boolean
  /** A hook that read or wrote a slot which its plugin had not declared. */
  onMisuse(error: Error): void
}

const receiptSigner = createReceiptSigner(sealer)

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
  sessionRoutes: SessionRoutes | undefined
  /** The way to the chain that its calls take. */
  settler: Settler | undefined
  #channels: ChannelCalls | null = null
  #watch: ChannelWatch | null = null
  #booking: Job | null = null
  /** It takes calls. */
  isUp = false
  readonly #parts: ProcessDeps
  #loops: ReturnType<Recovery['start']> | undefined
  #generation: Generation | undefined

  constructor(name: string, parts: ProcessDeps) {
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
    const { scheduler, chain, faults, reach, plant, onUnsettled } = this.#parts
    const { clock } = this
    const log = silentLog
    const store = reach(this)
    const { ledger, leases, purchases, sessions } = store
    const lease = await insist(scheduler, () => holdLease(leases, `process:${this.name}`, log))
    this.lease = lease
    const settler = await this.#openSettler(store)
    this.settler = settler
    const transferProofs = createSimulatedTransferProofs(chain, scheduler, faults)
    const transfers = createTransferWatch(transferProofs, clock)
    const chains = {
      assets: builtInAssets.filter((asset) => asset.network === testNetwork),
      settlers: [settler],
      settler: (network: string) => (network === testNetwork ? settler : undefined),
    }
    const notes = createPurchaseNotes(sealer, '_svc')
    const payments = new PaymentEngine({ ledger, chains, notes, lease, clock, log })
    this.payments = payments
    const settleRight: Payments['settle'] = payments.settle.bind(payments)
    const settle = plant?.settle?.(settleRight, settler) ?? settleRight
    payments.settle = async (paid, ...more) => {
      let isSettled = false
      try {
        const end = await settle(paid, ...more)
        isSettled = end.status === 'settled'
        return end
      } finally {
        if (!isSettled) onUnsettled(paid.purchaseId)
      }
    }
    const ports = {
      // Every call is of a link that is there.
      links: { find: async () => undefined } as Partial<GatewayPorts['links']> as GatewayPorts['links'],
      clock,
      log,
      sealer,
      receiptSigner,
      payments,
      chains,
      purchases,
      stats: { addTraffic: async () => {} } as Partial<GatewayPorts['stats']> as GatewayPorts['stats'],
      service: {
        publicUrl: 'http://gateway.test',
        name: 'Tollgate',
        metadataField: '_svc',
        instanceId: this.name,
        runsJobs: true,
      },
      channels: this.#openChannels(store, clock),
      // No wallet signs in.
      walletProofs: {} as GatewayPorts['walletProofs'],
      nonces: {} as GatewayPorts['nonces'],
      responseBuffer: createResponseBuffer(),
      // No price is stated by a seller's server.
      egress: {} as GatewayPorts['egress'],
      counters: createMemoryCounters(),
    } as Partial<GatewayPorts> as GatewayPorts
    const entries = [
      {
        plugin: x402,
        options: { maxTimeoutSeconds: 300, acceptV1: true, legacyBody: false, signedReceipts: 'on' },
      },
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
        ledger,
        leases,
        purchases,
        sessions,
        notes,
        lease,
        clock,
        log,
        payments: underWay,
        refundProofs: {
          prove: async (refund) =>
            this.#parts.isOnChain(refund)
              ? { status: 'proved', paymentKeys: [] }
              : // The node follows the chain; the processes' clocks may differ from it.
                { status: 'not_found', headMs: Infinity },
        },
        chains: {
          ...chains,
          settler: (_: string, scheme: string) => (scheme === transferScheme ? transfers : settler),
        },
      },
      // Unneeded data is dropped at once here, so that a process that still needs it fails.
      { keepSignedMs: 0 },
    )
    this.sessionRoutes = createSessionRoutes({
      ledger,
      sessions,
      purchases,
      payments,
      transferProofs,
      settler,
      chains,
      notes,
      lease,
      clock,
      log,
      price: this.#parts.price,
    })
    this.#loops = this.recovery.start()
    this.isUp = true
  }

  /** As cli/runtime has it. The processes of the first place claim. */
  #openChannels({ channels, channelBooks, mailbox }: ReachedStore, clock: Clock): ChannelCalls | null {
    const { channels: scene, scheduler, fails, plant, onClaims } = this.#parts
    if (scene === undefined) return null
    const { contract, reads, claims, withdrawDelaySeconds } = scene
    const own = createSimulatedChannelChain({
      contract,
      scheduler,
      reads,
      fails,
      onSending: (calls) => {
        for (const call of calls)
          if (call.type === 'claim') claims.push({ id: call.id, total: call.total, atMs: scheduler.nowMs })
        onClaims(this)
      },
    })
    const network: ChannelNetwork = {
      chain: plant?.channelChain?.(own) ?? own,
      withdrawDelaySeconds,
      minDeposit: '0.10',
      claimAmount: '0.50',
      claimAfterMs: 20_000,
      watchMs: 3_000,
    }
    const log = silentLog
    const networks = new Map([[network.chain.network, network]])
    this.#channels = new ChannelCalls({ channels, networks, lease: this.lease!, mailbox, log })
    const { book } = this.#channels
    const assets = builtInAssets
    this.#watch = new ChannelWatch({
      network,
      book,
      channels,
      assets,
      clock,
      log,
      claims: () => this.name.startsWith('A'),
    })
    this.#booking = startChannelBooking({ books: channelBooks, assets, log })
    return this.#channels
  }

  /** Ends the sale by channels, and gives them back. */
  async closeChannels(): Promise<void> {
    await this.#watch?.close()
    await this.#channels?.close()
    await this.#booking?.stop()
  }

  /** As cli/runtime has it: what settles, and the job that holds its key. */
  async #openSettler({ ledger, leases, mailbox }: ReachedStore): Promise<Settler> {
    const { scheduler, chain, faults, node, onSending, plant } = this.#parts
    const { clock } = this
    const log = silentLog
    if (node === undefined) {
      const own = createSimulatedSettler(chain, scheduler, clock, faults, onSending)
      const settler = plant?.settler?.(own) ?? own
      await insist(scheduler, async () => settler.start(await ledger.openAttempts(settler.id)))
      return settler
    }
    const keys = new KeySharing({ mailbox, leases, lease: this.lease!, log })
    const assets = builtInAssets.filter((asset) => asset.network === testNetwork)
    const nodes = { rpcUrls: ['http://node.test'], sendRequest: node.ask, staleHeadMs: Infinity }
    const own = createEvmSettler({
      network: testNetwork,
      privateKeys: [settlingKey],
      assets,
      ...nodes,
      clock,
      log,
      needsStart: true,
      batchWindowMs: this.#parts.batchWindowMs,
    })
    const settler = keys.wrap(plant?.settler?.(own) ?? own)
    const holder = createLeaseHolder(settler, { ledger, leases, keys, log })
    await holder.begin()
    forgetConcludedNowAndThen({ settlers: [settler] }, ledger, log)
    return settler
  }

  call(x: Exchange, link: ServedLink): void {
    const generation = this.#generation!
    const program = generation.compile(link)
    this.#parts.scheduler.as(this, () => runCall(x, program, generation, newCalls(silentLog)))
  }

  /** Runs them once more. @returns a function that ends them */
  startLoops(): () => void {
    const { scheduler } = this.#parts
    const loops = scheduler.as(this, () => this.recovery!.start())
    return () => scheduler.as(this, () => void loops.stop())
  }

  /** Ends the loops of its recovery; from here on a caller starts rounds itself. */
  stopLoops(): void {
    this.#parts.scheduler.as(this, () => void this.#loops?.stop())
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
