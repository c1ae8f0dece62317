import type { ChannelKeys } from '../channel/envelope.ts'
import type { StoredKeyPair } from '../channel/suite.ts'
import { routeOf } from '../relay/frames.ts'
import { type TokenRecord, tokenHeaderKey } from './pairToken.ts'
import { ResponseCache } from './responseCache.ts'
import { Sessions } from './sessions.ts'

/** A pairing's record and its in-memory state. */
export interface LivePairing {
  record: PairingRecord
  readonly route: Buffer
  readonly sessions: Sessions
  readonly responses: ResponseCache
  /** Ids of accepted greetings and pairing messages, with their expiry. A second copy is refused. */
  readonly taken: Map<string, number>
  /** Requests that are being opened or performed. */
  underWay: number
  /** Calls that the host is performing. */
  running: number
  /** The owner's pending decision. */
  confirming: Promise<void> | undefined
  /** Aborted to end the wait for the owner. */
  readonly ended: AbortController
  /** Aborted to end the waits of running calls, because the pairing was revoked or the vault stops. */
  readonly waits: AbortController
  /** The last write of this pairing. Writes run in order. */
  writing: Promise<unknown>
}

export const livePairing = (record: PairingRecord): LivePairing => ({
  record,
  route: routeOf(Buffer.from(record.routing.publicKey, 'base64')),
  sessions: new Sessions(),
  responses: new ResponseCache(),
  taken: new Map(),
  underWay: 0,
  running: 0,
  confirming: undefined,
  ended: new AbortController(),
  waits: new AbortController(),
  writing: Promise.resolve(),
})

/** The channel of the first message, when both sides share only the token. */
export const tokenChannel = ({ record, route }: LivePairing, vaultId: string): ChannelKeys => ({
  vaultId,
  serviceId: record.serviceId,
  route,
  headerKey: tokenHeaderKey(record.token, route),
})

/** The channel of later messages. Undefined before a proxy has used the token. */
export const ownChannel = ({ record, route }: LivePairing, vaultId: string): ChannelKeys | undefined =>
  record.claim && {
    vaultId,
    serviceId: record.serviceId,
    route,
    headerKey: Buffer.from(record.claim.headerKey, 'base64'),
  }

/**
 * - `offered`: the token can be used until it expires
 * - `claimed`: a proxy used the token, and the owner has not confirmed the phrase yet
 * - `paired`: the proxy may call
 * - `refused`: the owner refused
 * - `revoked`: the proxy may no longer call
 */
export type PairingState = 'offered' | 'claimed' | 'paired' | 'refused' | 'revoked'

/** What the proxy sent with the token, and what the vault responded. Byte strings are base64. */
export interface PairingClaim {
  /** The proxy's static X25519 key. */
  readonly proxyKey: string
  readonly commitment: string
  readonly vaultNonce: string
  /** The vault's static key that the proxy has. It is a part of the phrase. */
  readonly vaultKey: string
  /** The key that encrypts the headers from now on. */
  readonly headerKey: string
  readonly claimedAtMs: number
}

/** One remote agent's pairing as plain JSON. It is secret, so the host stores it encrypted. */
export interface PairingRecord {
  /** `pair_` and 24 hex digits. */
  readonly id: string
  /** The agent as which the proxy acts. The proxy may do what that agent may do. It is set when the pairing is created. */
  readonly agentId: string
  readonly serviceId: string
  readonly state: PairingState
  readonly createdAtMs: number
  /** When the token expires, in milliseconds since 1970. */
  readonly expiresAtMs: number
  /** Ed25519 key pair. The routing id is the hash of its public half. */
  readonly routing: StoredKeyPair
  readonly token: TokenRecord
  readonly claim?: PairingClaim
  readonly pairedAtMs?: number
  readonly endedAtMs?: number
  /** When a restore suspended this pairing, until the owner resumes it. Absent or null otherwise. */
  readonly suspendedAtMs?: number | null
}

/** The public fields of a pairing. */
export interface PairingView {
  readonly id: string
  readonly agentId: string
  readonly serviceId: string
  /** A {@link PairingState}, `expired` for an offer whose time is over, or `suspended` after a restore. */
  readonly state: PairingState | 'expired' | 'suspended'
  readonly createdAtMs: number
  readonly expiresAtMs: number
  readonly pairedAtMs: number | undefined
}

/** The storage of pairings. The host implements it with the vault's encrypted records. */
export interface PairingStore {
  /** All pairings. Called once, when the connector starts. */
  list(): Promise<readonly PairingRecord[]>
  /** Writes a new or changed pairing. Fulfilled when it is on disk, because what a proxy was promised must survive a crash. */
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

/** Whether a pairing waits for the owner to resume it. A proxy cannot pair with it, and its calls are refused. */
export const isSuspended = ({ state, suspendedAtMs }: PairingRecord): boolean =>
  typeof suspendedAtMs === 'number' && state !== 'revoked' && state !== 'refused'

function stateOf(record: PairingRecord, nowMs: number): PairingView['state'] {
  if (record.state === 'offered' && record.expiresAtMs <= nowMs) return 'expired'
  return isSuspended(record) ? 'suspended' : record.state
}
