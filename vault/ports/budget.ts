/** The subject of a budget: an agent, the whole vault, or one recipient across all agents. */
export type BudgetSubject =
  | { readonly kind: 'agent'; readonly agentId: string }
  | { readonly kind: 'vault' }
  | { readonly kind: 'recipient'; readonly recipient: string }

/** A limit in the asset's smallest unit. Without it, there is no limit. */
export interface BudgetLimit {
  readonly subject: BudgetSubject
  /** One asset on one chain, in canonical form: `eip155:8453/erc20:0x…` in lower case, `solana:…/slip44:501`. */
  readonly asset: string
  readonly perTransaction?: bigint
  readonly perDay?: bigint
}

/** Money that leaves or may leave the vault. It is a transfer, a fee, or an allowance at its full value. */
export interface Spend {
  readonly asset: string
  readonly amount: bigint
  /** Absent for fees. */
  readonly recipient?: string
}

export interface ReserveRequest {
  /** Id of one act of spending. A repeated request with this id counts only once. */
  readonly id: string
  readonly agentId: string
  readonly spends: readonly Spend[]
  /** All limits that apply to this agent. Limits of other assets and recipients are ignored. */
  readonly limits: readonly BudgetLimit[]
}

export interface BudgetRefusal {
  readonly ok: false
  readonly code: 'BUDGET_EXCEEDED_TX' | 'BUDGET_EXCEEDED_DAILY'
  readonly subject: BudgetSubject
  readonly asset: string
  readonly limit: bigint
  /** What was spent and reserved on this day before the request. 0 for a limit per transaction. */
  readonly used: bigint
  readonly requested: bigint
  /** When the next day begins (00:00 UTC), in ISO 8601. */
  readonly resetsAt: string
}

export interface Reservation {
  readonly ok: true
  readonly id: string
  /**
   * True if this id was already counted and is open or committed. This call added nothing, so its caller must not release it.
   */
  readonly isRepeat: boolean
  /**
   * Fulfilled when the reservation is on disk. The signature must not leave the vault before that. The signing process may make
   * it meanwhile, because a crash would destroy it. If this rejects with `STORAGE_UNAVAILABLE`, return only an error.
   */
  readonly durable: Promise<void>
}

export interface BudgetUse {
  readonly asset: string
  /** Committed today. */
  readonly spent: bigint
  /** The amount that is reserved today and neither committed nor released. It counts like a spent amount. */
  readonly reserved: bigint
  /** What was given back today, because less was charged than was counted. It is not in `spent`. */
  readonly givenBack: bigint
  readonly resetsAt: string
}

/** A payment that was counted today with the most that it can cost. */
export interface PartialPayment {
  /** The id of its reservation. */
  readonly id: string
  /** What {@link BudgetBook.notePartial} got. */
  readonly claim: unknown
}

/**
 * What was spent today, in integers, recorded in a journal. `reserve` checks and counts in one synchronous step. Otherwise two
 * concurrent requests could both pass the check.
 *
 * A day is a UTC day. If the clock is set back, spending still counts on the latest day. A reservation that a crash left open
 * stays counted, because its signature may have left the vault. See {@link unresolved}. Every method throws `VAULT_LOCKED`
 * while the vault is locked.
 */
export interface BudgetBook {
  /**
   * Reserves an amount. If its id is open, or among the last 10,000 committed, it is already counted, and no limit is checked
   * again.
   */
  reserve(request: ReserveRequest): Reservation | BudgetRefusal
  /** Whether an id is among the last 10,000 committed. */
  isCommitted(id: string): boolean
  /** Whether an id is open or among the last 10,000 committed. `reserve` then counts nothing more. */
  isCounted(id: string): boolean
  /** Returns the result of `reserve` without counting. */
  check(request: ReserveRequest): { readonly ok: true } | BudgetRefusal
  /**
   * Makes a reservation final, because the signature leaves the vault. It needs no flush, because an open reservation counts
   * the same.
   */
  commit(id: string): void
  /**
   * Releases an amount for which certainly nothing was signed. Fulfilled when it is on disk. Refuses unknown, committed and
   * released ids.
   */
  release(id: string): Promise<void>
  /**
   * Notes that a reserved payment, all in one asset, may cost less than it counts. The note is on disk with the next change that does not wait. A
   * second note replaces the first. Does nothing for a reservation of an earlier day.
   *
   * @param claim JSON that proves later what was charged
   */
  notePartial(id: string, claim: unknown): void
  /** The committed payments of today that may cost less than they count, oldest first. Does not count as use of the vault. */
  partial(): readonly PartialPayment[]
  /**
   * Gives back part of a payment of {@link partial}, at most what it counts, and removes it from there. Once the day is over, there
   * is nothing to give back. The change is on disk with the other changes of the same turn of the event loop, such as a log entry, or
   * none is. Does not count as use of the vault.
   *
   * @returns fulfilled when it is on disk. Undefined if the payment is not among {@link partial}
   */
  giveBack(id: string, amount: bigint): Promise<void> | undefined
  /** What a subject has used of one asset today. */
  used(subject: BudgetSubject, asset: string): BudgetUse
  /** What a subject has used of all assets today. */
  usedAll(subject: BudgetSubject): readonly BudgetUse[]
  /** Ids of reservations that were open when the vault was last closed or killed. `release` or `commit` resolves them. */
  unresolved(): readonly string[]
  /**
   * The day on which spending counts, such as `2027-12-28`, if it is later than the clock's day. Budgets reset only after that
   * day.
   */
  laterDay(): string | undefined
  /**
   * Makes the clock's current day the day on which spending counts, for the owner, after the clock was wrong. The latest day's
   * usage is carried over, so that no agent gets a new budget.
   */
  resetDay(): Promise<void>
}
