/** A remote agent's pairing as the owner sees it; what is secret about it stays in the connector. */
export interface PairingSummary {
  readonly id: string
  readonly agent_id: string
  readonly service_id: string
  /** Also `expired` and `suspended`. */
  readonly state: string
  readonly created_at: string
  readonly expires_at: string
  /** Four words that both sides show, while the owner is asked whether they are the same; null otherwise. */
  readonly phrase: string | null
}

/** What the remote machine needs; the token is shown once. */
export interface PairingOffer {
  readonly id: string
  readonly token: string
  /** The whole command line for the remote machine. */
  readonly command: string
  readonly expires_at: string
}

/** Pairing with remote agents; absent from a vault that speaks to no relay. */
export interface Pairings {
  list(): readonly PairingSummary[]
  create(request: { readonly serviceId: string; readonly agentId: string }): Promise<PairingOffer>
  /** The owner says that both phrases are the same, or that they are not. @throws `NOT_FOUND` */
  confirm(id: string, isSame: boolean): Promise<void>
  /** Lets one go on that a restore suspended; any other stays as it is. @throws `NOT_FOUND` */
  resume(id: string): Promise<void>
  /** Gives the vault its next key for proxies, who follow by themselves. @returns the number of that key */
  rotateKey(): Promise<number>
  /** Ends one. @throws `NOT_FOUND` */
  revoke(id: string): Promise<void>
}
