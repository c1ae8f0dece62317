/** The pairing of a remote agent as the owner sees it. Its secrets stay in the connector. */
export interface PairingSummary {
  readonly id: string
  readonly agent_id: string
  readonly service_id: string
  /** Also `expired` and `suspended`. */
  readonly state: string
  readonly created_at: string
  readonly expires_at: string
  /** Four words that both sides show while the owner compares them. Null otherwise. */
  readonly phrase: string | null
}

/** The values that the remote machine needs. The token is shown only once. */
export interface PairingOffer {
  readonly id: string
  readonly token: string
  /** The whole command line for the remote machine. */
  readonly command: string
  readonly expires_at: string
}

/** Pairing with remote agents. Absent from a vault without a relay. */
export interface Pairings {
  list(): readonly PairingSummary[]
  create(request: { readonly serviceId: string; readonly agentId: string }): Promise<PairingOffer>
  /** Records the owner's comparison of the two phrases. @throws `NOT_FOUND` */
  confirm(id: string, isSame: boolean): Promise<void>
  /** Resumes a pairing that a restore suspended. Any other pairing stays unchanged. @throws `NOT_FOUND` */
  resume(id: string): Promise<void>
  /**
   * Creates the vault's next key for proxies, which switch to it automatically. @returns the number of that
   * key
   */
  rotateKey(): Promise<number>
  /** Revokes a pairing. @throws `NOT_FOUND` */
  revoke(id: string): Promise<void>
}
