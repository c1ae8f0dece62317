import type { OpenAttempt } from '../../../../core/domain/payment.ts'
import type { LedgerNonces } from '../../../../core/ports/chains/settler.ts'

/** Number of latest nonces that a reorganization (blocks replaced by others) may undo. */
const REORG_NONCES = 256
/**
 * Maximum number of nonces that are filled at once. This installation cannot leave a larger gap, so a larger gap means that a node
 * returned a wrong count. Filling a nonce costs gas.
 */
export const MAX_FILLED = 10_000
/** Hands out the nonces of one key. Each nonce goes to one transaction. */
export class NonceQueue {
  readonly #firstFree: () => Promise<number>
  #refreshing: Promise<void> | undefined
  #next = 0
  /** Returned nonces below `#next`, lowest first. */
  #gaps: number[] = []
  /** All nonces below this one are used, by this installation or by another program. */
  #lowest = 0
  /** Another program seems to have used the nonces below this one. Ignored unless it is above `#next`. */
  #suspectedBelow = 0

  /**
   * @param firstFree asks the chain for the account's next nonce, including its pool; called once, and again after {@link recheck}
   */
  constructor(firstFree: () => Promise<number>) {
    this.#firstFree = firstFree
  }

  /**
   * Takes the lowest free nonce. The caller has to use it or give it back, because a skipped nonce blocks every later transaction
   * of the account. Several nonces may be taken at once, so that their attempts are stored as one group.
   */
  async take(): Promise<number> {
    const asking = (this.#refreshing ??= this.#refresh())
    try {
      await asking
    } catch (error) {
      if (this.#refreshing === asking) this.#refreshing = undefined
      throw error
    }
    const gap = this.#gaps.shift()
    if (gap !== undefined) return gap
    // This transaction gets a nonce above the withheld ones, so they can no longer be handed out.
    this.#next = Math.max(this.#next, this.#suspectedBelow)
    this.#suspectedBelow = 0
    return this.#next++
  }

  async #refresh(): Promise<void> {
    const first = await this.#firstFree()
    this.#lowest = first
    this.#gaps = this.#gaps.filter((nonce) => nonce >= first)
    this.#next = Math.max(this.#next, first)
  }

  /** Gives the nonce to the next transaction. No bytes that could still be sent may have been signed with it. */
  release(nonce: number): void {
    if (nonce < this.#lowest) return
    this.#gaps = [...this.#gaps, nonce].sort((a, b) => a - b)
    while (this.#gaps.at(-1) === this.#next - 1) {
      this.#gaps.pop()
      this.#next--
    }
  }

  get hasGaps(): boolean {
    return this.#gaps.length > 0
  }

  /** Removes and returns nonces that were given back while later ones are in use. The caller has to fill them. */
  takeGaps(): number[] {
    return this.#gaps.splice(0)
  }

  /** Never hands out this nonce or a lower one again, because it was signed before. */
  raiseAbove(nonce: number): void {
    // A comparison instead of `Math.max`, because `Math.max` would keep a NaN forever.
    if (nonce >= this.#next) this.#next = nonce + 1
  }

  /**
   * Hands out no nonce below this one, because another program seems to have used them. {@link clearSuspicion} undoes it until a
   * nonce from here on is handed out.
   */
  suspect(first: number): void {
    this.#suspectedBelow = Math.max(this.#suspectedBelow, first)
  }

  /** Whether nonces are withheld only because of {@link suspect}. */
  get hasSuspicion(): boolean {
    return this.#suspectedBelow > this.#next
  }

  /**
   * Undoes {@link suspect}, because the nonces turned out to be unused. Nonces that were handed out or raised meanwhile are not
   * affected.
   */
  clearSuspicion(): void {
    this.#suspectedBelow = 0
  }

  /** Asks the chain before the next nonce is handed out, because another program signs with the same key. */
  recheck(): void {
    this.#refreshing = undefined
  }

  /** The next nonce once it is known, above any withheld nonces. */
  get next(): number | undefined {
    const known = Math.max(this.#next, this.#suspectedBelow)
    return known > 0 || this.#refreshing !== undefined ? known : undefined
  }
}

/** A transaction in flight. */
interface LiveTransaction {
  /** The signed bytes; empty while they are not stored yet, or if a former process signed them. */
  readonly bytes: string
  /** Highest cost in wei. */
  readonly maxWei: bigint
  /** Number of payments that the transaction settles. */
  readonly payments: number
  /** When the transaction began to wait for its block, in ms on the monotonic clock. */
  readonly sinceMs: number
  /** Whether the transaction's attempt is in the store. */
  readonly isStored?: true
  readonly isFiller?: true
}

/**
 * Records an account's nonces as far as this process has seen them. The class sends no requests. Its callers pass on the reports of
 * the chain and of the database.
 */
export class KnownNonces {
  /** Transactions in flight by nonce. They are removed when mined. */
  readonly live = new Map<number, LiveTransaction>()
  /** Nonces that no payment will use any more, so an empty transaction has to use them. */
  readonly abandoned = new Set<number>()
  /** Nonces of former processes' payments that were recently settled. They are not filled, even if the chain has lost them. */
  readonly formerlyMined = new Set<number>()
  /** Bytes of mined transactions. If a reorganization undoes them, later transactions wait until these bytes are sent again. */
  readonly #used = new Map<number, { readonly bytes: string; readonly isFiller: boolean }>()
  #usedBelow = 0
  /** The lowest unknown nonce that transactions wait behind, and the time when they began to wait. */
  #stranded: { readonly nonce: number; readonly sinceMs: number } | undefined

  /** The chain has used all nonces below this one, because it uses nonces in order. */
  get usedBelow(): number {
    return this.#usedBelow
  }

  /** Number of payments in `live`. */
  get payments(): number {
    let sum = 0
    for (const { payments } of this.live.values()) sum += payments
    return sum
  }

  /** How long the oldest sent transaction has waited for its block, in ms; 0 if there is none. */
  get oldestMs(): number {
    const nowMs = performance.now()
    let sinceMs = nowMs
    for (const [nonce, one] of this.live)
      if (nonce >= this.#usedBelow && one.bytes !== '') sinceMs = Math.min(sinceMs, one.sinceMs)
    return nowMs - sinceMs
  }

  /** Highest total cost of the transactions in `live`, in wei. */
  get committedWei(): bigint {
    let sum = 0n
    for (const { maxWei } of this.live.values()) sum += maxWei
    return sum
  }

  /** Whether a nonce was filled so recently that a reorganization could undo it. */
  get hasFillers(): boolean {
    return [...this.live.values(), ...this.#used.values()].some(({ isFiller }) => isFiller)
  }

  /** Records that the chain has used the nonce with these bytes; the bytes are empty if a former process signed them. */
  mined(nonce: number, bytes: string): void {
    this.live.delete(nonce)
    this.#usedBelow = Math.max(this.#usedBelow, nonce + 1)
    if (bytes !== '') this.#used.set(nonce, { bytes, isFiller: false })
    // The chain uses nonces in order, so this keeps the latest {@link REORG_NONCES} only.
    this.#used.delete(nonce - REORG_NONCES)
  }

  /** Records that the chain has used all nonces below this one. */
  minedBelow(next: number): void {
    for (const [nonce, { bytes, isFiller }] of this.live) {
      if (nonce >= next) continue
      this.live.delete(nonce)
      if (bytes !== '') this.#used.set(nonce, { bytes, isFiller: isFiller === true })
    }
    for (const nonce of this.#used.keys()) if (nonce < next - REORG_NONCES) this.#used.delete(nonce)
  }

  /** The bytes to send again for a nonce, or undefined if there are none. */
  bytesOf(nonce: number): string | undefined {
    const bytes = this.live.get(nonce)?.bytes ?? this.#used.get(nonce)?.bytes
    return bytes === '' ? undefined : bytes
  }

  /** All known nonces from this one on, lowest first. */
  from(next: number): number[] {
    const all = new Set([...this.live.keys(), ...this.abandoned, ...this.#used.keys()])
    return [...all].filter((nonce) => nonce >= next).sort((a, b) => a - b)
  }

  /**
   * Unknown nonces from the next one on, once transactions have waited behind them for `afterMs`. A former process used such
   * nonces, and a reorganization undid their transactions. Empty if there are more than {@link MAX_FILLED}.
   */
  strandedFrom(next: number, afterMs: number): number[] {
    // An abandoned transaction also waits, because its bytes may still be in the pool, where no transaction can replace them.
    const waiting = Math.min(...[...this.live.keys(), ...this.abandoned].filter((nonce) => nonce >= next))
    if (waiting === Number.POSITIVE_INFINITY || this.#isKnown(next)) {
      this.#stranded = undefined
      return []
    }
    const nowMs = performance.now()
    if (this.#stranded?.nonce !== next) this.#stranded = { nonce: next, sinceMs: nowMs }
    else if (nowMs - this.#stranded.sinceMs >= afterMs && waiting - next <= MAX_FILLED)
      return Array.from({ length: waiting - next }, (_, i) => next + i).filter(
        (nonce) => !this.#isKnown(nonce),
      )
    return []
  }

  /** Whether transactions wait behind an unknown nonce. */
  get isStranded(): boolean {
    return this.#stranded !== undefined
  }

  /** Stops the waiting time. Called when this process cannot check whether transactions still wait behind an unknown nonce. */
  forgetStranded(): void {
    this.#stranded = undefined
  }

  #isKnown(nonce: number): boolean {
    return this.live.has(nonce) || this.abandoned.has(nonce) || this.#used.has(nonce)
  }
}

/** Asks the ledger for the nonces that it has attempts for. Rejects if the ledger does not respond. */
export type ReadLedgerNonces = () => Promise<LedgerNonces>

/** Reads the ledger once for all callers at startup, and again if the ledger did not respond. */
export function readOnce(read: ReadLedgerNonces): ReadLedgerNonces {
  let reading: ReturnType<ReadLedgerNonces> | undefined
  return () => {
    reading ??= read().catch((error: unknown) => {
      reading = undefined
      throw error
    })
    return reading
  }
}

/** Used when the database does not respond or was not queried. */
export const noLedgerNonces: LedgerNonces = { nonces: new Set(), isComplete: false }

/**
 * Nonces that only nodes report as used and of which this process has no record. If such a nonce turns out to be unused, it can be
 * filled without losing a payment of the ledger.
 */
export class ClaimedNonces {
  readonly #reported: () => readonly [number, number]
  #payments: ReadonlySet<number> = new Set()
  /** The ledger may have deleted attempts with nonces up to this one; −1 if it has deleted none. */
  #deleted = 0
  /** Highest nonce in the ledger. */
  #highest = 0

  /** @param reported the range that nodes claimed to this process: from the first nonce, below the second */
  constructor(reported: () => readonly [number, number]) {
    this.#reported = reported
  }

  /**
   * Adds the nonces that nodes reported as used to a former process. They are the gaps between the ledger's nonces, because no
   * payment ever used a nonce without an attempt in the ledger. If the ledger is whole, the same is true below its lowest nonce.
   *
   * @param others further nonces known to belong to payments
   */
  adopt({ nonces: numbers, isComplete: isWhole }: LedgerNonces, others: ReadonlySet<number>): void {
    this.#payments = new Set([...numbers, ...others])
    this.#deleted = numbers.size === 0 ? 0 : Math.min(...numbers)
    this.#highest = numbers.size === 0 ? 0 : Math.max(...numbers)
    if (isWhole) this.#deleted = -1
    // If the ledger's nonces have no gap, nodes reported none.
    const known = isWhole ? numbers.size : numbers.size - 1
    if (this.#highest - this.#deleted === known) this.#highest = 0
  }

  has(nonce: number): boolean {
    const [from, below] = this.#reported()
    return (
      (nonce >= from && nonce < below) ||
      (nonce > this.#deleted && nonce < this.#highest && !this.#payments.has(nonce))
    )
  }

  /** All nonces that only nodes reported are below this one. */
  get below(): number {
    return Math.max(this.#reported()[1], this.#highest)
  }
}

/**
 * Whether the stored bytes of each nonce may be sent. They may not if recovery has marked a payment of the transaction as never
 * sent.
 */
export function sendable(attempts: readonly OpenAttempt[]): ReadonlyMap<number, boolean> {
  const byNonce = new Map<number, boolean>()
  for (const { sequence, isUnsent } of attempts) {
    const nonce = Number(sequence)
    byNonce.set(nonce, isUnsent !== true && byNonce.get(nonce) !== false)
  }
  return byNonce
}
