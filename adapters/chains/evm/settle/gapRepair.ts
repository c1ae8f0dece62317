import type { NetworkId } from '../../../../core/domain/network.ts'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { type KnownNonces, MAX_FILLED, type NonceQueue } from './nonces.ts'
import { type BroadcastResult, broadcast, type Fees } from './transaction.ts'

/** First pause before a failed repair is retried, in ms. It doubles up to the maximum. */
const REPAIR_AGAIN_MS = 100
const MAX_REPAIR_AGAIN_MS = 5_000
/**
 * Transactions that are sent at once, lowest nonce first. A new lease holder may adopt fifty, and payments wait for the last one.
 */
const MAX_SENT_AT_ONCE = 16
/** Gas of an empty transfer. */
const FILLER_GAS = 21_000

export interface GapRepairDeps {
  readonly network: NetworkId
  readonly rpc: Rpc
  readonly log: Log
  readonly queue: NonceQueue
  readonly known: KnownNonces
  /** The account's next nonce in the block `latest` or `pending`. */
  readonly countOf: (block: string) => Promise<number>
  /** How long transactions wait behind a nonce without a record here before it is filled, in ms. */
  readonly strandedMs: (nonce: number) => number
  /** Fees for a filler (an empty transaction that uses up a nonce); undefined while they are above the cap. */
  readonly currentFees: () => Promise<Fees | undefined>
  /** Signs a filler: a transfer of 0 ether to the account itself. */
  readonly signFiller: (nonce: number, gas: number, fees: Fees) => SettlementAttempt
  /** Whether this process still holds the key's lease. */
  readonly mayGoOn: () => boolean
  /**
   * Nonces of payments that are open in the database, and whether their stored bytes may be sent. Undefined until open payments are
   * adopted.
   */
  readonly openInStore: () => Promise<ReadonlyMap<number, boolean>> | undefined
}

/** Makes sure that an account uses its nonces without a gap, because the chain mines no transaction above a gap. */
export class GapRepair {
  readonly #deps: GapRepairDeps
  /** A former process signed below this nonce. The next repair finds out which of those nonces have no stored payment. */
  #adoptedBelow = 0
  #checkedAtMs = performance.now()
  #repairing: Promise<void> | undefined
  #isClosed = false
  #timer: NodeJS.Timeout | undefined
  #againMs = REPAIR_AGAIN_MS

  constructor(deps: GapRepairDeps) {
    this.#deps = deps
  }

  /** Whether there are nonces that no payment will use, or unchecked nonces of a former process. */
  get hasGaps(): boolean {
    const { queue, known } = this.#deps
    return queue.hasGaps || known.abandoned.size > 0 || this.#adoptedBelow > 0 || known.isStranded
  }

  /** When the chain was last asked, in ms on the monotonic clock. */
  get checkedAtMs(): number {
    return this.#checkedAtMs
  }

  /** Records that a former process signed below this nonce. */
  adoptBelow(nonce: number): void {
    this.#adoptedBelow = Math.max(this.#adoptedBelow, nonce)
  }

  /**
   * Sends transactions again that the pool has lost, and fills the nonces that no payment will use. One repair runs at a time.
   * Never rejects.
   */
  repair(): Promise<void> {
    this.#repairing ??= this.#repairOnce()
      .catch((error: unknown) => {
        const { network, known, log } = this.#deps
        known.forgetStranded()
        log.warn({ network, error: String(error) }, 'could not fill the gaps between nonces')
      })
      .finally(() => {
        this.#repairing = undefined
        this.#againMs = this.hasGaps ? Math.min(2 * this.#againMs, MAX_REPAIR_AGAIN_MS) : REPAIR_AGAIN_MS
        if (this.hasGaps) this.repairIn(this.#againMs)
      })
    return this.#repairing
  }

  /** Schedules the next repair in this many ms, instead of at the planned time. */
  repairIn(ms: number): void {
    if (this.#isClosed) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.repair(), ms)
    this.#timer.unref()
  }

  /** Stops sending; resolves once no send is in progress. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#repairing
  }

  async #repairOnce(): Promise<void> {
    const { network, log, known, countOf, mayGoOn, strandedMs } = this.#deps
    const { live, abandoned, formerlyMined } = known
    if (!mayGoOn()) return
    this.#abandonGivenBack()
    const [latest, pooledFirst] = [await countOf('latest'), await countOf('pending')]
    // A nonce without a stored payment is filled after two responses agree that it is unused, because one node may lag and another
    // may return too high a count.
    const secondReport = this.#adoptedBelow > 0 ? await countOf('pending') : pooledFirst
    const pooled = Math.min(pooledFirst, secondReport)
    const unused = Math.max(pooledFirst, secondReport)
    // The pool's count includes every used nonce, so the lower of the two counts limits the damage of one wrong response.
    const mined = Math.min(latest, pooled)
    // Recovery sends the transactions again that a reorganization undid, as they were signed.
    const first = this.#adoptedBelow - unused > MAX_FILLED ? this.#adoptedBelow : unused
    if (first !== unused)
      log.error(
        { network, nonce: unused, signedBelow: this.#adoptedBelow },
        'payments were signed with nonces far above those that the settling account has used, because a node returned a wrong count. These payments cannot be mined, and no buyer is charged. The nonces in between are not filled',
      )
    for (let nonce = first; nonce < this.#adoptedBelow; nonce++)
      if (!live.has(nonce) && !formerlyMined.has(nonce)) abandoned.add(nonce)
    // If the two responses disagree, the next repair checks the remaining nonces again.
    this.#adoptedBelow = unused > pooled ? Math.min(this.#adoptedBelow, unused) : 0
    this.#checkedAtMs = performance.now()
    known.minedBelow(mined)
    // Payments may have given back nonces meanwhile.
    this.#abandonGivenBack()
    const afterMs = strandedMs(pooled)
    // The nonces above the first may have a longer waiting time.
    const stranded = known.strandedFrom(pooled, afterMs).filter((nonce) => strandedMs(nonce) <= afterMs)
    for (const nonce of await this.#withoutOpen(stranded)) abandoned.add(nonce)
    for (const nonce of abandoned) if (nonce < mined) abandoned.delete(nonce)
    const nonces = known.from(pooled)
    for (let i = 0; i < nonces.length && !this.#isClosed; i += MAX_SENT_AT_ONCE)
      await this.#sendSome(nonces.slice(i, i + MAX_SENT_AT_ONCE))
  }

  #abandonGivenBack(): void {
    const { queue, known } = this.#deps
    for (const nonce of queue.takeGaps()) known.abandoned.add(nonce)
  }

  /** Leaves out nonces of payments in the database whose bytes may be sent, because recovery sends those bytes again. */
  async #withoutOpen(nonces: readonly number[]): Promise<readonly number[]> {
    if (nonces.length === 0) return nonces
    const open = await this.#deps.openInStore()
    return open === undefined ? nonces : nonces.filter((nonce) => open.get(nonce) !== true)
  }

  async #sendSome(nonces: readonly number[]): Promise<void> {
    const taken = await Promise.all(nonces.map((nonce) => this.#sendAgain(nonce)))
    // Some nodes refuse a nonce until they have the one below it, and the parallel requests may have arrived in another order.
    for (const [i, nonce] of nonces.entries())
      if (taken[i] === 'refused' && (this.#isClosed || (await this.#sendAgain(nonce)) === 'refused')) return
  }

  async #sendAgain(nonce: number): Promise<BroadcastResult['taken'] | undefined> {
    const { rpc, known } = this.#deps
    const bytes = known.bytesOf(nonce)
    if (bytes !== undefined) return (await broadcast(rpc, bytes)).taken
    return known.abandoned.has(nonce) ? this.#fill(nonce) : undefined
  }

  /** Uses up a nonce that no payment needs with a filler, at current fees. */
  async #fill(nonce: number): Promise<BroadcastResult['taken'] | undefined> {
    const { network, rpc, log, known, currentFees, mayGoOn, signFiller } = this.#deps
    const fees = await currentFees()
    // Another process may hold the key's lease by now and use this nonce for a payment.
    if (fees === undefined || !mayGoOn()) return undefined
    const { bytes } = signFiller(nonce, FILLER_GAS, fees)
    const { taken } = await broadcast(rpc, bytes)
    log.info({ network, nonce, taken }, 'filled a nonce that no payment will use')
    if (taken !== 'yes') return taken
    known.abandoned.delete(nonce)
    const maxWei = BigInt(FILLER_GAS) * fees.maxFeePerGas
    known.live.set(nonce, { bytes, maxWei, payments: 0, sinceMs: performance.now(), isFiller: true })
    return taken
  }
}
