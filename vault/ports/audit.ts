export const auditActions = [
  'SIGN',
  'SIGN_MESSAGE',
  'SIGN_TYPED_DATA',
  'READ',
  'WRITE',
  'DELETE',
  'CALL',
  'ADDRESS',
  'UNLOCK',
  'LOCK',
  'PAIR',
  'REVOKE',
  'CONFIG',
] as const
export type AuditAction = (typeof auditActions)[number]

export const auditStatuses = [
  'PENDING',
  'APPROVED',
  'AUTO_APPROVED',
  'DENIED',
  'EXPIRED',
  'CANCELED',
  'FAILED',
] as const
export type AuditStatus = (typeof auditStatuses)[number]

/** What happened. Never a stored value, a password, a key or a whole transaction. */
export interface AuditEvent {
  /** The agent's name, or `owner`, or `vault`. */
  readonly agent: string
  readonly action: AuditAction
  readonly status: AuditStatus
  /** Decimal, as exact as it was: `1.5`. Becomes a JSON number only where the document wants one. */
  readonly amount?: string
  readonly currency?: string
  readonly scope?: string
  readonly recipient?: string
  readonly chain?: string
  readonly approvalId?: string
  /** Hash of what was shown to whoever decided. */
  readonly decisionHash?: string
  readonly requestId?: string
  /** Names a deed that is the same however often it is asked for, such as a signature over these bytes. */
  readonly act?: string
  /** One of the vault's error codes, when it failed or was denied. */
  readonly code?: string
  /** Where it was refused: what the agent said that its request does, at most 500 characters. */
  readonly claimed?: string
  /** And what its bytes do, at most 500 characters. */
  readonly found?: string
  /** Plain words for the owner, at most 500 characters; treat it as text from a stranger when showing it. */
  readonly note?: string
}

export interface AuditEntry extends AuditEvent {
  /** 1 for the first entry of the vault; no number is left out. */
  readonly seq: number
  /** ISO 8601, UTC, milliseconds. */
  readonly timestamp: string
  /** SHA-256 over the previous hash and this entry, hex. */
  readonly hash: string
}

export interface AuditQuery {
  readonly agent?: string
  readonly action?: AuditAction
  readonly status?: AuditStatus
  readonly scope?: string
  readonly recipient?: string
  /** ISO 8601, inclusive. */
  readonly since?: string
  /** ISO 8601, exclusive. */
  readonly until?: string
  /** 1 to 500, default 100. */
  readonly limit?: number
  /** What the page before gave. */
  readonly cursor?: string
}

export interface AuditPage {
  /** Newest first. */
  readonly entries: readonly AuditEntry[]
  /** Undefined at the end. A page may be short, even empty, and have one: a call looks at a bounded part of the log. */
  readonly cursor: string | undefined
}

/** A place in the log: an entry's number and its hash. */
export interface AuditMark {
  readonly seq: number
  readonly hash: string
}

/** Entries without a keyed code that follow each other. */
export interface UnauthenticatedRange {
  readonly from: number
  readonly to: number
  readonly count: number
}

export interface AuditVerdict {
  readonly ok: boolean
  /** Entries looked at. */
  readonly entries: number
  /** How many older ones were dropped before them, by the limits on the log's size and age; the head says so. */
  readonly dropped?: number
  /** The `seq` of the first entry that is missing, changed or not ours. */
  readonly firstBad?: number
  /** What is wrong with it, in words; for a head, which one. */
  readonly reason?: string
  /**
   * Runs of entries that were written while the vault was locked, oldest first, at most 1,000: whoever could write the
   * files then may have added or changed them. Those behind them follow them.
   */
  readonly unauthenticated: readonly UnauthenticatedRange[]
  /** The `seq` of the first entry whose time is before the one of the entry before it: a clock was turned back. */
  readonly clockTurnedBack?: number
  /** False while locked: the chain was followed, but nobody could check the keyed codes. */
  readonly authenticated: boolean
}

/**
 * The log of everything that was asked and decided: a hash chain over append-only files, with an HMAC head in a file of
 * its own. What it costs to append does not depend on how long the log is.
 */
export interface AuditLog {
  /**
   * Writes one entry; fulfilled when it is on disk. Entries of one loop turn share a flush, in the order of the calls.
   * Works while locked too for the few events that happen then (a wrong password, a changed one, a lock), without a
   * keyed code of its own: the next entry that is written unlocked covers it.
   * @throws `STORAGE_UNAVAILABLE`, and `VAULT_LOCKED` for any other event while locked; the caller then must not answer
   *         what it wanted to log.
   */
  append(event: AuditEvent): Promise<AuditEntry>
  /**
   * Writes down what was refused to an agent. The first of a kind gets its entry at once; the same ones again are counted,
   * and have one entry together after a quarter of an hour, or when the vault is locked. A crash loses such a count.
   */
  appendRefusal(event: AuditEvent): Promise<void>
  /**
   * Whether the log has an entry with this `act`, or an `APPROVED` one with this approval id, among the newest 10,000 of
   * them; also after a restart. False while locked if nothing was unlocked before.
   */
  hasAct(id: string): boolean
  query(query: AuditQuery): Promise<AuditPage>
  /** Reads the whole log; takes time in proportion to it, but never holds it in memory. */
  verify(): Promise<AuditVerdict>
  /** What was wrong when the log was opened or unlocked, or undefined. Say it to the owner; entries go on. */
  readonly damage: string | undefined
  /** What the owner should look at, as it is now. */
  readonly warnings: readonly AuditWarning[]
  /** Called once for each warning that there was not before. Returns how to stop listening. */
  onWarning(listener: (warning: AuditWarning) => void): () => void
}

/** Something about the log that is not as usual. */
export interface AuditWarning {
  readonly code: 'LOG_DAMAGED' | 'LOG_UNWRITABLE' | 'LOG_REFUSALS' | 'LOG_GROWS'
  readonly message: string
  /** What to do about it. */
  readonly action: string
}
