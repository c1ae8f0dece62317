/** A message from one process to another through their database. */
export interface Message {
  /** Fencing token of the lease whose holder receives the message. A later holder of the same name does not receive it. */
  readonly to: number
  /** Lease of the sender. Responses go to its holder. */
  readonly from: number
  readonly body: Uint8Array
}

/**
 * Messages between the processes of one database, for work that another process has to do now. A message arrives within
 * milliseconds, and exists no longer than the lease to which it is addressed. A power cut may lose messages, so the ledger must
 * have everything that must not be lost. A sender that waits for a response checks whether the recipient still holds its lease.
 */
export interface Mailbox {
  /** Posts messages in order, in one commit. Rejects with `store_unavailable` if the database does not respond. */
  post(mailbox: readonly Message[]): Promise<void>
  /**
   * Receives every message to a lease of this process once, including messages that were posted before this call. Messages of one
   * sender arrive one after the other, in the order in which the sender posted them.
   *
   * @returns a function that stops receiving
   */
  listen(to: number, onMessage: (message: Message) => void): () => void
}
