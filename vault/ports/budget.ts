/** Whose budget: this agent's, the whole vault's, or what may go to one recipient, whoever asks. */
export type BudgetSubject =
  | { readonly kind: 'agent'; readonly agentId: string }
  | { readonly kind: 'vault' }
  | { readonly kind: 'recipient'; readonly recipient: string }

/** A rule in the asset's smallest unit. A bound that is absent does not bind. */
export interface BudgetLimit {
  readonly subject: BudgetSubject
  /** One asset on one chain, always written the same way: `eip155:8453/erc20:0x…` in lower case, `solana:…/slip44:501`. */
  readonly asset: string
  readonly perTransaction?: bigint
  readonly perDay?: bigint
}

/** Something leaves, or may leave: a send, a fee, or an allowance at its full value. */
export interface Spend {
  readonly asset: string
  readonly amount: bigint
  /** Absent for fees. */
  readonly recipient?: string
}

export interface ReserveRequest {
  /** Names this one act of spending. The same id again is the same act: it counts once. */
  readonly id: string
  readonly agentId: string
  readonly spends: readonly Spend[]
  /** Every limit that applies to this agent. Those of other assets and recipients are ignored. */
  readonly limits: readonly BudgetLimit[]
}

export interface BudgetRefusal {
  readonly ok: false
  readonly code: 'BUDGET_EXCEEDED_TX' | 'BUDGET_EXCEEDED_DAILY'
  readonly subject: BudgetSubject
  readonly asset: string
  readonly limit: bigint
  /** Spent and reserved on this day before the request; 0 for a limit a transaction. */
  readonly used: bigint
  readonly requested: bigint
  /** ISO 8601: when a new day begins (00:00 UTC). */
  readonly resetsAt: string
}

export interface Reservation {
  readonly ok: true
  readonly id: string
  /** True when this id was counted before, and is open or committed: nothing was added, and it is not ours to release. */
  readonly isRepeat: boolean
  /**
   * Fulfilled when the reservation is on disk. THE SIGNATURE MUST NOT LEAVE THE VAULT BEFORE. It may be made meanwhile:
   * what a crash takes with it was seen by nobody. Rejects with `STORAGE_UNAVAILABLE`; then no answer but an error.
   */
  readonly durable: Promise<void>
}

export interface BudgetUse {
  readonly asset: string
  /** Committed today. */
  readonly spent: bigint
  /** Reserved today and not decided. Counts like spent. */
  readonly reserved: bigint
  readonly resetsAt: string
}

/**
 * What was spent today, in integers, journaled. `reserve` decides and counts in one step that nothing can come between:
 * do not split it into a check and a note, two requests at once would both be told there is room.
 *
 * A day is a UTC day and never goes back: with the clock turned back, spending still counts on the latest day seen.
 * A reservation that a crash left undecided stays counted (its signature may have left); see {@link unresolved}.
 * Every method throws `VAULT_LOCKED` while the vault is locked.
 */
export interface BudgetBook {
  /** An id that is open, or among the last 10,000 committed, is counted already: no limit is asked again. */
  reserve(request: ReserveRequest): Reservation | BudgetRefusal
  /** Whether an id is among the last 10,000 committed. */
  isCommitted(id: string): boolean
  /** Whether `reserve` would count nothing more for an id: it is open, or among the last 10,000 committed. */
  isCounted(id: string): boolean
  /** Same verdict as `reserve`, counting nothing. */
  check(request: ReserveRequest): { readonly ok: true } | BudgetRefusal
  /** The signature leaves: final. Needs no flush of its own, because an undecided reservation counts the same. */
  commit(id: string): void
  /** Nothing was signed, for certain: gives the amount back. Fulfilled when on disk. Unknown and decided ids are refused. */
  release(id: string): Promise<void>
  /** What a subject used today of one asset. */
  used(subject: BudgetSubject, asset: string): BudgetUse
  /** Everything that a subject used today. */
  usedAll(subject: BudgetSubject): readonly BudgetUse[]
  /** Ids of reservations that were open when the vault was last closed or killed. `release` or `commit` decides them. */
  unresolved(): readonly string[]
  /** The day that is counted where it is later than the clock's, such as `2027-12-28`: nothing is refilled until it is over. */
  laterDay(): string | undefined
  /**
   * For the owner, after the machine's clock was wrong: takes the day that the clock says now as today and carries over
   * what the latest day had used, so that nobody gains a fresh budget by it.
   */
  resetDay(): Promise<void>
}
