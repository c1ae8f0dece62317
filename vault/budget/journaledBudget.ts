import type { Clock } from '../../core/ports/clock.ts'
import { VaultError } from '../errors/error.ts'
import type {
  BudgetBook,
  BudgetRefusal,
  BudgetSubject,
  BudgetUse,
  Reservation,
  ReserveRequest,
} from '../ports/budget.ts'
import { SealedLog, type SealedLogOptions, type SealedLogPlace } from '../storage/disk/sealedLog.ts'
import { chargesOf, refusalFor, subjectKey } from './judgeSpend.ts'
import { type BudgetChange, BudgetLedger, dayOf, decodeChange, encodeChange, endOf } from './ledger.ts'

/** Small: what is used on one day is rewritten in a few milliseconds, and reading it back stays as short. */
const COMPACT_AFTER_BYTES = 2 << 20

/**
 * {@link BudgetBook} over a sealed log. Judging and counting happen in one turn of the event loop, so no two requests
 * can both take the last of a budget; what was counted is in the log before its promise is fulfilled.
 */
export class JournaledBudget implements BudgetBook {
  readonly #clock: Clock
  readonly #beforeUse: () => void
  readonly #ledger = new BudgetLedger()
  /** Reservations on their way to disk, and those that never got there. */
  readonly #onTheirWay = new Map<string, Promise<void>>()
  #log: SealedLog | undefined
  #unresolved = new Set<string>()

  /** @param beforeUse throws when the vault is locked or should be. */
  constructor(clock: Clock, beforeUse: () => void) {
    this.#clock = clock
    this.#beforeUse = beforeUse
  }

  /** Reads the log in. @throws `VAULT_CORRUPT` */
  open(place: SealedLogPlace): void {
    this.#log = SealedLog.open(this.#options(place))
    this.#unresolved = new Set(this.#ledger.openIds())
  }

  /** Writes a new log from changes as {@link exportChanges} gives them; none for a new vault. */
  create(place: SealedLogPlace, changes: readonly Buffer[] = []): void {
    for (const change of changes) this.#ledger.apply(decodeChange(change))
    this.#log = SealedLog.create(this.#options(place))
    this.#unresolved = new Set(this.#ledger.openIds())
  }

  /** The journal's file while it is open. */
  get log(): SealedLog | undefined {
    return this.#log
  }

  exportChanges(): Buffer[] {
    return this.#ledger.snapshot().map(encodeChange)
  }

  async close(): Promise<void> {
    const log = this.#log
    this.#log = undefined
    await log?.close()
    this.#ledger.clear()
    this.#unresolved.clear()
    this.#onTheirWay.clear()
  }

  reserve(request: ReserveRequest): Reservation | BudgetRefusal {
    const log = this.#use()
    const { id } = request
    const charges = chargesOf(request)
    if (this.isCounted(id))
      return { ok: true, id, isRepeat: true, durable: this.#onTheirWay.get(id) ?? Promise.resolve() }
    const day = this.#today()
    const refusal = refusalFor(charges, request.limits, this.#ledger, day)
    if (refusal !== undefined) return refusal
    const durable = this.#change(log, { t: 'reserve', id, day, charges })
    this.#onTheirWay.set(id, durable)
    // Whoever fails before waiting for it has an error of its own to tell; this one must not end the process. What did
    // not get to disk is not in the ledger any more.
    durable.then(
      () => this.#onTheirWay.delete(id),
      () => {},
    )
    return { ok: true, id, isRepeat: false, durable }
  }

  isCommitted(id: string): boolean {
    this.#use()
    return this.#ledger.isCommitted(id)
  }

  isCounted(id: string): boolean {
    this.#use()
    return this.#ledger.isOpen(id) || this.#ledger.isCommitted(id)
  }

  check(request: ReserveRequest): { readonly ok: true } | BudgetRefusal {
    this.#use()
    return refusalFor(chargesOf(request), request.limits, this.#ledger, this.#today()) ?? { ok: true }
  }

  commit(id: string): void {
    const log = this.#use()
    this.#assertOpen(id)
    // Lost with a crash, it leaves a reservation that counts the same; a failed disk is the next reservation's to tell.
    this.#change(log, { t: 'commit', id }).catch(() => {})
  }

  async release(id: string): Promise<void> {
    const log = this.#use()
    this.#assertOpen(id)
    this.#onTheirWay.delete(id)
    await this.#change(log, { t: 'release', id })
  }

  used(subject: BudgetSubject, asset: string): BudgetUse {
    this.#use()
    return this.#useOf(subjectKey(subject), asset)
  }

  usedAll(subject: BudgetSubject): readonly BudgetUse[] {
    this.#use()
    const key = subjectKey(subject)
    if (this.#today() > this.#ledger.day) return []
    return this.#ledger.assetsOf(key).map((asset) => this.#useOf(key, asset))
  }

  unresolved(): readonly string[] {
    this.#use()
    return [...this.#unresolved]
  }

  laterDay(): string | undefined {
    this.#use()
    const { day } = this.#ledger
    return day > dayOf(this.#clock.now()) ? endOf(day - 1).slice(0, 'yyyy-mm-dd'.length) : undefined
  }

  async resetDay(): Promise<void> {
    const log = this.#use()
    await this.#change(log, { t: 'move', day: dayOf(this.#clock.now()) })
  }

  #change(log: SealedLog, change: BudgetChange): Promise<void> {
    this.#ledger.apply(change)
    if (change.t === 'commit' || change.t === 'release') this.#unresolved.delete(change.id)
    return log.append(encodeChange(change))
  }

  #useOf(subject: string, asset: string): BudgetUse {
    const day = this.#today()
    const isNewDay = day > this.#ledger.day
    const used = isNewDay ? 0n : this.#ledger.used(subject, asset)
    const reserved = isNewDay ? 0n : this.#ledger.reserved(subject, asset)
    return { asset, spent: used - reserved, reserved, resetsAt: endOf(day) }
  }

  /** The clock's day, or a later one on which something was reserved: turning the clock back refills nothing. */
  #today(): number {
    return Math.max(dayOf(this.#clock.now()), this.#ledger.day)
  }

  #assertOpen(id: string): void {
    if (this.#ledger.isOpen(id)) return
    throw new VaultError(
      'NOT_FOUND',
      'Expected the id of an open reservation; this one is unknown or was decided.',
    )
  }

  #use(): SealedLog {
    this.#beforeUse()
    if (this.#log === undefined) throw new VaultError('VAULT_LOCKED')
    return this.#log
  }

  #options(place: SealedLogPlace): SealedLogOptions {
    return {
      ...place,
      compactAfterBytes: COMPACT_AFTER_BYTES,
      state: {
        snapshot: () => this.exportChanges(),
        reset: () => {
          this.#ledger.clear()
          this.#onTheirWay.clear()
        },
        replay: (payload) => this.#ledger.apply(decodeChange(payload)),
      },
    }
  }
}
