import type { StoredKeyPair } from './channel/keyPair.ts'
import type { TokenRecord } from './pairToken.ts'

/**
 * - `offered`: the token waits to be used, until it expires
 * - `claimed`: a proxy used it; the owner has not yet said that both phrases are the same
 * - `paired`: the proxy may call
 * - `refused`: the owner said no
 * - `revoked`: it may no longer call
 */
export type PairingState = 'offered' | 'claimed' | 'paired' | 'refused' | 'revoked'

/** What the proxy that used the token said, and what the vault gave it. Base64. */
export interface PairingClaim {
  /** The proxy's static X25519 key. */
  readonly proxyKey: string
  readonly commitment: string
  readonly vaultNonce: string
  /** The static key of the vault that the proxy knows; part of the phrase. */
  readonly vaultKey: string
  /** Encrypts the headers from now on. */
  readonly headerKey: string
  readonly claimedAtMs: number
}

/** One remote agent's pairing. Secret: the host keeps it encrypted. Plain JSON. */
export interface PairingRecord {
  /** `pair_` and 24 hex digits. */
  readonly id: string
  /** Whom the vault knows the agent as, given when the pairing was made: what it may do is what that agent may do. */
  readonly agentId: string
  readonly serviceId: string
  readonly state: PairingState
  readonly createdAtMs: number
  /** When the token expires, in milliseconds since 1970. */
  readonly expiresAtMs: number
  /** Ed25519; the routing id is the hash of its public half. */
  readonly routing: StoredKeyPair
  readonly token: TokenRecord
  readonly claim?: PairingClaim
  readonly pairedAtMs?: number
  readonly endedAtMs?: number
  /** Since when a restored vault waits for the owner's word about this pairing; absent and null when it does not. */
  readonly suspendedAtMs?: number | null
}

/** What may be shown of a pairing. */
export interface PairingView {
  readonly id: string
  readonly agentId: string
  readonly serviceId: string
  /** As {@link PairingState}; `expired` for an offer whose time is over, `suspended` after a restore. */
  readonly state: PairingState | 'expired' | 'suspended'
  readonly createdAtMs: number
  readonly expiresAtMs: number
  readonly pairedAtMs: number | undefined
}

/** Where pairings are kept; the host implements it over the vault's encrypted records. */
export interface PairingStore {
  /** All of them; called once, when the connector starts. */
  list(): Promise<readonly PairingRecord[]>
  /** Writes one, new or changed. On disk when fulfilled: what was promised to a proxy must be there after a crash. */
  put(record: PairingRecord): Promise<void>
  delete(id: string): Promise<void>
}

export const viewOf = (record: PairingRecord, nowMs: number): PairingView => ({
  id: record.id,
  agentId: record.agentId,
  serviceId: record.serviceId,
  state: stateOf(record, nowMs),
  createdAtMs: record.createdAtMs,
  expiresAtMs: record.expiresAtMs,
  pairedAtMs: record.pairedAtMs,
})

/** Whether it waits for the owner's word: nobody pairs by it and no call of it is performed. */
export const isSuspended = ({ state, suspendedAtMs }: PairingRecord): boolean =>
  typeof suspendedAtMs === 'number' && state !== 'revoked' && state !== 'refused'

function stateOf(record: PairingRecord, nowMs: number): PairingView['state'] {
  if (record.state === 'offered' && record.expiresAtMs <= nowMs) return 'expired'
  return isSuspended(record) ? 'suspended' : record.state
}
