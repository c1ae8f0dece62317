import type { Clock } from '../../core/ports/clock.ts'
import type { RowReader, SealedRows } from '../disk/sealedRows.ts'
import type { VaultDatabase } from '../disk/vaultDatabase.ts'
import { VaultError } from '../errors/error.ts'
import type {
  BudgetBook,
  BudgetRefusal,
  BudgetSubject,
  BudgetUse,
  PartialPayment,
  Reservation,
  ReserveRequest,
} from '../ports/budget.ts'
import { type BudgetChange, BudgetLedger, dayOf, decodeChange, encodeChange, endOf } from './ledger.ts'
import { chargesOf, refusalFor, subjectKey } from './limits.ts'

/**
 * Size of the journal at which totals replace its rows, in bytes. Up to this size, reading and rewriting the journal take a few
 * milliseconds.
 */
const COMPACT_AFTER_BYTES = 1 << 20

/**
 * {@link BudgetBook} over sealed rows, with one row per change. When the journal has grown, totals replace the rows. A limit is
 * checked and the amount counted in one turn of the event loop, so two requests cannot both get the rest of a budget. A promise
 * is fulfilled once the count is on disk.
 */
export class JournaledBudget implements BudgetBook {
  readonly #clock: Clock
  readonly #beforeUse: () => void
  readonly #database: VaultDatabase
  readonly #ledger = new BudgetLedger()
  /** Reservations that are being written. */
  readonly #onTheirWay = new Map<string, Promise<void>>()
  /** Commits that could not be written. The next reservation writes them and reports the failure. */
  readonly #refusedCommits = new Set<string>()
  #rows: SealedRows | undefined
  #unresolved = new Set<string>()
  #lastRow = 0
  /** Total size of the rows that contain one change each, in bytes. */
  #journalBytes = 0

  /** @param beforeUse throws when the vault is locked or has to lock */
  constructor(database: VaultDatabase, clock: Clock, beforeUse: () => void) {
    this.#database = database
    this.#clock = clock
    this.#beforeUse = beforeUse
  }

  readonly reader: RowReader = {
    reset: () => {
      this.#ledger.clear()
      this.#onTheirWay.clear()
      this.#lastRow = 0
      this.#journalBytes = 0
    },
    replay: (row, payload) => {
      this.#ledger.apply(decodeChange(payload))
      this.#lastRow = row
      this.#journalBytes += payload.length
    },
  }

  /** Loads the stored rows and continues with them. */
  open(rows: SealedRows): void {
    this.#rows = rows
    this.#unresolved = new Set(this.#ledger.openIds())
  }

  close(): void {
    this.#rows = undefined
    this.reader.reset()
    this.#refusedCommits.clear()
    this.#unresolved.clear()
  }

  reserve(request: ReserveRequest): Reservation | BudgetRefusal {
    const rows = this.#use()
    const { id } = request
    const charges = chargesOf(request)
    if (this.isCounted(id)) return this.#reservation(id, true, this.#onTheirWay.get(id) ?? Promise.resolve())
    const day = this.#today()
    const refusal = refusalFor(charges, request.limits, this.#ledger, day)
    if (refusal !== undefined) return refusal
    const refused = [...this.#refusedCommits]
    this.#refusedCommits.clear()
    for (const commit of refused) if (this.#ledger.isOpen(commit)) this.#commit(rows, commit)
    const durable = this.#change(rows, { t: 'reserve', id, day, charges }, true)
    this.#onTheirWay.set(id, durable)
    // If the caller fails earlier, it reports its own error, and this rejection must not end the process. A reservation that
    // was not written is no longer in the ledger.
    durable.then(
      () => this.#onTheirWay.delete(id),
      () => {},
    )
    return this.#reservation(id, false, durable)
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
    const rows = this.#use()
    this.#assertOpen(id)
    this.#commit(rows, id)
  }

  async release(id: string): Promise<void> {
    const rows = this.#use()
    this.#assertOpen(id)
    this.#onTheirWay.delete(id)
    await this.#change(rows, { t: 'release', id })
  }

  notePartial(id: string, claim: unknown): void {
    const rows = this.#use()
    // If the note is lost, nothing is given back. The request that made it reports the disk's failure.
    this.#change(rows, { t: 'partial', id, claim }, true).catch(() => {})
  }

  partial(): readonly PartialPayment[] {
    const isOver = dayOf(this.#clock.now()) > this.#ledger.day
    return this.#rows === undefined || isOver ? [] : this.#ledger.partial()
  }

  giveBack(id: string, amount: bigint): Promise<void> | undefined {
    if (this.#rows === undefined) throw new VaultError('VAULT_LOCKED')
    if (!this.#ledger.isPartial(id) || dayOf(this.#clock.now()) > this.#ledger.day) return undefined
    return this.#change(this.#rows, { t: 'giveBack', id, amount: String(amount) })
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
    const rows = this.#use()
    await this.#change(rows, { t: 'move', day: dayOf(this.#clock.now()) })
  }

  /** Reading the promise starts the write. Other writes of the same turn, such as a log entry, go to disk with it. */
  #reservation(id: string, isRepeat: boolean, written: Promise<void>): Reservation {
    const database = this.#database
    return {
      ok: true,
      id,
      isRepeat,
      get durable() {
        database.flushSoon()
        return written
      },
    }
  }

  /**
   * If a crash loses a commit, its reservation remains and counts the same. If the disk fails, the next reservation reports it.
   */
  #commit(rows: SealedRows, id: string): void {
    this.#change(rows, { t: 'commit', id }, true).catch(() => {
      if (this.#rows === rows) this.#refusedCommits.add(id)
    })
  }

  #change(rows: SealedRows, change: BudgetChange, canWait = false): Promise<void> {
    this.#ledger.apply(change)
    if (change.t === 'commit' || change.t === 'release') this.#unresolved.delete(change.id)
    const payload = encodeChange(change)
    this.#journalBytes += payload.length
    if (this.#journalBytes <= COMPACT_AFTER_BYTES)
      return rows.put('budget', ++this.#lastRow, payload, canWait)
    const rollups = this.#ledger.snapshot().map(encodeChange)
    this.#lastRow = rollups.length
    this.#journalBytes = 0
    return rows.replaceAll('budget', rollups)
  }

  #useOf(subject: string, asset: string): BudgetUse {
    const day = this.#today()
    const isNewDay = day > this.#ledger.day
    const used = isNewDay ? 0n : this.#ledger.used(subject, asset)
    const reserved = isNewDay ? 0n : this.#ledger.reserved(subject, asset)
    const givenBack = isNewDay ? 0n : this.#ledger.givenBack(subject, asset)
    return {
      asset,
      spent: used - reserved,
      reserved,
      givenBack,
      resetsAt: endOf(day),
    }
  }

  /** The clock's day, or a later day on which money was reserved, so that setting the clock back makes no money available. */
  #today(): number {
    return Math.max(dayOf(this.#clock.now()), this.#ledger.day)
  }

  #assertOpen(id: string): void {
    if (this.#ledger.isOpen(id)) return
    throw new VaultError(
      'NOT_FOUND',
      'Expected the id of an open reservation, got one that is unknown or already committed or released.',
    )
  }

  #use(): SealedRows {
    this.#beforeUse()
    if (this.#rows === undefined) throw new VaultError('VAULT_LOCKED')
    return this.#rows
  }
}
