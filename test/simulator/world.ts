import { createSealer } from '../../adapters/secrets/createSealer.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { ServedLink } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { buildGeneration, type Generation } from '../../core/kernel/generation.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import { createPurchaseNotes } from '../../core/payments/purchaseNote.ts'
import { createReconciler, type Reconciler } from '../../core/payments/reconciler.ts'
import { type Exchange, gatewayPlugin, handled, type Reply } from '../../core/plugin/gateway.ts'
import type { GatewayPorts } from '../../core/plugin/ports.ts'
import { silentLog } from '../../core/ports/log.ts'
import type { Payments } from '../../core/ports/payments.ts'
import { runCall } from '../../gateway/call.ts'
import purchaseRecord from '../../plugins/purchase-record/index.ts'
import replayGuard from '../../plugins/replay-guard/index.ts'
import x402 from '../../plugins/x402/index.ts'
import { createScriptedSettler, testNetwork } from '../helpers/settler.ts'
import { type FakeResponse, fakeCall } from './fakeCall.ts'
import type { InlineStore } from './inlineStore.ts'
import type { Scheduler } from './scheduler.ts'

/** One call of a buyer, for the judgement in the end. */
export interface Asked {
  readonly nonce: string
  readonly what: string
  readonly res: FakeResponse
}

/** A gateway process over the real tables, a chain and sellers that fail as the seed says. */
export class World {
  /** While true, anything may fail. */
  isFaulty = true
  readonly asked: Asked[] = []
  /** Nonces on chain, in order. */
  readonly settler = createScriptedSettler()
  /** How often the seller worked for a payment, and how often until its transfer. */
  readonly runs = new Map<string, number>()
  readonly runsAtTransfer = new Map<string, number>()
  readonly #dead = new Set<string>()
  readonly #scheduler: Scheduler
  readonly #store: InlineStore
  readonly #links: readonly ServedLink[]
  #process = 0
  #generation!: Generation
  #reconciler!: Reconciler
  #ports!: GatewayPorts
  #roundUnderWay = false

  constructor(scheduler: Scheduler, store: InlineStore, links: readonly ServedLink[]) {
    this.#scheduler = scheduler
    this.#store = store
    this.#links = links
    this.#scriptChain()
  }

  /** Starts the process, or another after a crash. */
  async start(): Promise<void> {
    this.#process++
    this.tell('start', this.#process)
    this.#roundUnderWay = false
    const instanceId = `process-${this.#process}`
    const clock = { now: () => this.#scheduler.nowMs }
    const sealer = createSealer(Buffer.alloc(32, 7))
    this.#ports = {
      clock,
      log: silentLog,
      sealer,
      payments: this.#faulty(this.#store.payments),
      purchases: { ...this.#store.purchases, addViews: async () => {} },
      links: this.#store.links,
      chains: {
        assets: builtInAssets.filter((asset) => asset.network === testNetwork),
        settler: (network) => (network === testNetwork ? this.settler : undefined),
      },
      service: {
        ...{
          publicUrl: 'http://gateway.test',
          name: 'Tollgate',
          metadataField: '_svc',
          instanceId,
          runsJobs: true,
        },
      },
    } as Partial<GatewayPorts> as GatewayPorts
    await this.#store.payments.heartbeat(instanceId)
    const entries = [
      { plugin: x402, options: { maxTimeoutSeconds: 300, acceptV1: true, legacyBody: false } },
      {
        plugin: replayGuard,
        options: { maxBodyBytes: 1_000, joinTimeoutMs: 20_000, replayWindowMs: 900_000 },
      },
      { plugin: this.#seller(), options: {} },
      { plugin: purchaseRecord, options: { viewsFlushMs: 5_000 } },
    ]
    this.#generation = await buildGeneration(entries, this.#ports)
    const notes = createPurchaseNotes(sealer, '_svc')
    this.#reconciler = createReconciler({ ...this.#ports, notes, instanceId })
  }

  async crash(): Promise<void> {
    await this.#scheduler.crash()
    for (const { res } of this.asked) res.hangUp()
    // Its heartbeat is old by the time that the next one looks.
    this.#scheduler.nowMs += 20_000
    await this.start()
  }

  ask(nonce: string, link: number, path: string, header: string): Asked {
    const served = this.#links[link]!
    const { call, res } = fakeCall(`${served.username}/${served.slug}`, path, header)
    const asked = { nonce, what: `${served.slug}${path}`, res }
    this.asked.push(asked)
    const route = { link: served, program: this.#generation.compile(served), isPaid: true, methods: null }
    runCall(call, route, this.#generation, this.#ports.clock, silentLog)
    return asked
  }

  /** A round of the reconciler, unless one is under way. */
  reconcile(): void {
    if (this.#roundUnderWay) return
    this.#roundUnderWay = true
    const mine = this.#process
    const done = () => {
      if (mine === this.#process) this.#roundUnderWay = false
    }
    this.#reconciler.round().then(done, done)
  }

  async heartbeat(): Promise<void> {
    await this.#store.payments.heartbeat(this.#ports.service.instanceId)
  }

  /** What happened, for whoever reads a failed seed: SIMULATE_SEED tells it all. */
  tell(...what: unknown[]): void {
    if (process.env['SIMULATE_SEED'] === undefined) return
    const short = (value: unknown) => {
      const text = JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? String(v) : v)) ?? ''
      return text.length > 160 ? `${text.slice(0, 160)}…` : text
    }
    process.stderr.write(`${this.#scheduler.nowMs % 10_000_000} ${what.map(short).join(' ')}\n`)
  }

  #fails(probability: number): boolean {
    return this.isFaulty && this.#scheduler.chance(probability)
  }

  /** Every operation takes its turn, in the order in which they were asked for, and may fail before or after it counts. */
  #faulty(real: Payments): Payments {
    let last: Promise<unknown> = Promise.resolve()
    const wrap =
      (operation: (...args: unknown[]) => Promise<unknown>) =>
      (...args: unknown[]) => {
        const done = last.then(async () => {
          await this.#scheduler.turn()
          if (this.#fails(0.02)) throw new TollgateError('store_unavailable')
          const result = await operation(...args)
          this.tell(operation.name, args, result)
          if (this.#fails(0.02)) throw new TollgateError('store_unavailable')
          return result
        })
        last = done.catch(() => undefined)
        return done.then(async (result) => {
          await this.#scheduler.turn()
          return result
        })
      }
    return Object.fromEntries(Object.entries(real).map(([name, f]) => [name, wrap(f)])) as unknown as Payments
  }

  #scriptChain(): void {
    const { settler } = this
    const scheduler = this.#scheduler
    const land = (nonce: string, transfer: () => unknown) => {
      // The chain takes an authorisation once, whoever brings it.
      if (settler.transfers.includes(nonce)) return
      this.tell('transfer', nonce)
      this.runsAtTransfer.set(nonce, this.runs.get(nonce) ?? 0)
      transfer()
    }
    settler.verifyWith = async () => {
      await scheduler.turn()
      if (this.#fails(0.08)) return { ok: false, reason: 'rpc', message: 'away', transient: true }
      if (this.#fails(0.05)) return { ok: false, reason: 'insufficient_funds', message: 'none' }
      return { ok: true }
    }
    settler.settleWith = async (transfer, { nonce, key }) => {
      await scheduler.turn()
      const pending = { status: 'pending', transaction: '0x', reason: 'settlement_pending' } as const
      if (this.#fails(0.05)) throw new Error('broke before the broadcast')
      if (this.#fails(0.05)) return pending
      if (this.#fails(0.05)) return { status: 'rejected', reason: 'refused', message: 'nothing was sent' }
      if (this.#fails(0.04)) {
        this.#dead.add(nonce)
        return {
          status: 'failed_final',
          reason: 'transaction_failed',
          message: 'reverted',
          transaction: '0xdead',
        }
      }
      land(nonce, transfer)
      await scheduler.turn()
      if (this.#fails(0.06)) throw new Error('broke after the broadcast')
      if (this.#fails(0.06)) return pending
      return { status: 'settled', transaction: `0x${key}` }
    }
    settler.recover = async ({ nonce, attempt }) => {
      await scheduler.turn()
      const transaction = attempt!.transaction
      if (this.#dead.has(nonce)) {
        return { status: 'failed_final', reason: 'transaction_failed', message: 'reverted', transaction }
      }
      if (!settler.transfers.includes(nonce)) {
        if (this.#fails(0.5)) return { status: 'pending', transaction, reason: 'not_seen' }
        land(nonce, () => settler.transfers.push(nonce))
      }
      await scheduler.turn()
      return { status: 'settled', transaction }
    }
  }

  /** Stands for the seller and the way to it. */
  #seller() {
    const forward = async (x: Exchange): Promise<Reply | undefined> => {
      const nonce = x.payment!.identity.nonce
      const left = () => x.res.destroyed && x.settlement === null
      const fail = (outcome: NonNullable<Exchange['upstreamOutcome']>, status: number) => {
        x.upstreamOutcome = outcome
        x.upstreamStatus = status
        return new TollgateError(outcome === 'timeout' ? 'upstream_timeout' : 'upstream_error')
      }
      if (left()) throw fail('buyer-left', 0)
      await this.#scheduler.turn()
      this.tell('seller works', nonce)
      this.runs.set(nonce, (this.runs.get(nonce) ?? 0) + 1)
      await this.#scheduler.turn()
      if (left()) throw fail('buyer-left', 0)
      if (this.#fails(0.08)) throw fail('failed', 500)
      if (this.#fails(0.04)) throw fail('timeout', 0)
      const status = this.#fails(0.05) ? 404 : 200
      const headers = ['Content-Type', 'application/json']
      const body = Buffer.from(JSON.stringify({ run: this.runs.get(nonce) }))
      x.upstreamOutcome = 'answered'
      x.upstreamStatus = status
      x.answer = { status, headers, mediaType: 'application/json', body, tunnel: null }
      if (x.settlement === null) return status === 404 ? { status, headers, body } : undefined
      // Charged first: the answer goes out as it comes.
      const reply = paidReply(x.answer, 'application/json', x.purchase!, x.settlement.headers, true)
      const res = x.res as unknown as FakeResponse
      if (res.destroyed) x.isUnsent = true
      else {
        res.writeHead(reply.status, reply.headers)
        res.end(reply.body as Uint8Array)
        x.status = reply.status
      }
      return handled
    }
    return gatewayPlugin({
      name: 'seller',
      api: 1,
      options: { type: 'object', additionalProperties: false, properties: {} },
      needs: [],
      slots: { forward: { writes: ['answer'] } },
      setup: () => ({ route: () => ({ forward }) }),
    })
  }
}
