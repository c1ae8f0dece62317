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
  'GIVE_BACK',
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

/** One event. It never contains a stored value, a password, a key or a whole transaction. */
export interface AuditEvent {
  /** The agent's name, or `owner`, or `vault`. */
  readonly agent: string
  readonly action: AuditAction
  readonly status: AuditStatus
  /**
   * The amount in exact decimal digits, such as `1.5`. It becomes a JSON number only where the interface document requires
   * one.
   */
  readonly amount?: string
  readonly currency?: string
  readonly scope?: string
  readonly recipient?: string
  readonly chain?: string
  readonly approvalId?: string
  /** Decision hash of the approval, which covers what the owner saw. */
  readonly decisionHash?: string
  readonly requestId?: string
  /** Id of the action. It stays the same if the action is repeated, such as for a signature over the same bytes. */
  readonly act?: string
  /** The vault's error code, if the action failed or was denied. */
  readonly code?: string
  /** The agent's claim, for a refused request, at most 500 characters. */
  readonly claimed?: string
  /** What the bytes do, for a refused request, at most 500 characters. */
  readonly found?: string
  /** A message for the owner, at most 500 characters. Display it as untrusted text. */
  readonly note?: string
}

export interface AuditEntry extends AuditEvent {
  /** Number of the entry. The first entry of the vault has 1, and no number is skipped. */
  readonly seq: number
  /** ISO 8601, UTC, milliseconds. */
  readonly timestamp: string
  /** SHA-256 in hex of the previous hash and this entry. */
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
  /** The cursor from the previous page. */
  readonly cursor?: string
}

export interface AuditPage {
  /** Newest first. */
  readonly entries: readonly AuditEntry[]
  /**
   * Cursor of the next page. Undefined at the end. One call searches a limited part of the log, so a page with few or no
   * entries may still have a cursor.
   */
  readonly cursor: string | undefined
}

/** A position in the log: an entry's number and its hash. */
export interface AuditMark {
  readonly seq: number
  readonly hash: string
}

/** Consecutive entries without a keyed code. */
export interface UnauthenticatedRange {
  readonly from: number
  readonly to: number
  readonly count: number
}

export interface AuditVerdict {
  readonly ok: boolean
  /** Entries that were checked. */
  readonly entries: number
  /** Number of older entries that were dropped by the limits on the log's size and age, according to the head. */
  readonly dropped?: number
  /** The `seq` of the first entry that is missing, changed or not by this vault. */
  readonly firstBad?: number
  /** The problem of that entry, as a message. For a head, it states which head. */
  readonly reason?: string
  /**
   * Ranges of entries that were written while the vault was locked, oldest first, at most 1,000. A program with write access to
   * the files may have added or changed these entries. Later entries contain their hashes.
   */
  readonly unauthenticated: readonly UnauthenticatedRange[]
  /** The `seq` of the first entry whose time is before that of the previous entry, because a clock was set back. */
  readonly clockTurnedBack?: number
  /** False while the vault is locked, because only the hash chain was verified and not the keyed codes. */
  readonly authenticated: boolean
}

/**
 * The log of all requests and decisions: a hash chain in the vault's database, with an HMAC head in a file of its own. The
 * cost of appending does not depend on the log's length.
 */
export interface AuditLog {
  /**
   * Writes one entry. The promise is fulfilled when the entry is on disk. Entries of one turn of the event loop share a flush,
   * in the order of the calls. While the vault is locked, it writes only the few events that can occur then (a wrong password,
   * a password change, a lock). They have no keyed code. The next entry that is written while unlocked authenticates them.
   * @param canWait true if no response waits for the entry. It is written with the next entry, or a moment later
   * @throws `STORAGE_UNAVAILABLE`, and `VAULT_LOCKED` for any other event while locked. The caller must then not return the
   *   result that it wanted to log
   */
  append(event: AuditEvent, canWait?: boolean): Promise<AuditEntry>
  /**
   * Logs a refusal of an agent. The first refusal of a kind gets its entry at once. Further refusals of the kind are counted.
   * They share one entry after a quarter of an hour, or when the vault is locked. A crash loses such a count.
   */
  appendRefusal(event: AuditEvent): Promise<void>
  /**
   * Whether the newest 10,000 entries have an entry with this `act`, or an `APPROVED` entry with this approval id. Entries from
   * before a restart count. False until the vault is first unlocked.
   */
  hasAct(id: string): boolean
  query(query: AuditQuery): Promise<AuditPage>
  /** Verifies the whole log, in time proportional to its length, without reading all of it into memory at once. */
  verify(): Promise<AuditVerdict>
  /**
   * The problem that was found when the log was opened or unlocked. Undefined if there was none. The caller reports it to the
   * owner, and logging continues.
   */
  readonly damage: string | undefined
  /** Current warnings for the owner. */
  readonly warnings: readonly AuditWarning[]
  /** Calls the listener once for each new warning. Returns a function that removes the listener. */
  onWarning(listener: (warning: AuditWarning) => void): () => void
}

/** A warning about the log. */
export interface AuditWarning {
  readonly code: 'LOG_DAMAGED' | 'LOG_UNWRITABLE' | 'LOG_REFUSALS' | 'LOG_GROWS'
  readonly message: string
  /** The remedy. */
  readonly action: string
}
