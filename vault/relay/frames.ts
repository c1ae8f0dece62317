import { createHash } from 'node:crypto'
import { lengthPrefixed } from '../channel/suite.ts'

/** Maximum size of a frame that a relay accepts, in bytes. The largest sealed message fits with its overhead. */
export const MAX_FRAME_BYTES = 512 * 1024

/** Speed of the slowest line that both ends support, which is 16 kB/s. */
const SLOWEST_BYTES_PER_MS = 16

/** How long a message takes on the slowest supported line, in ms. */
export const transferMs = ({ byteLength }: Uint8Array): number => byteLength / SLOWEST_BYTES_PER_MS

/** The path of a relay. The routing id is not in it, because paths are logged. */
export const relayPath = '/v1/relay'

export const routeBytes = 16
export const challengeBytes = 32
export const signatureBytes = 64

/** The first byte of every frame, by its type. */
export const frameTypes = {
  /** Relay to all: 32 random bytes. It is the first frame on every connection. */
  challenge: 0x01,
  /** Vault to relay: public key (32), signature (64) of {@link registrationBytes}. */
  register: 0x02,
  /** Relay to vault: routing id. The vault has it now, perhaps again because a newer connection closed. */
  registered: 0x03,
  /** Relay to vault: routing id. The proof is invalid, or the vault has too many ids. */
  refused: 0x04,
  /** Vault to relay: routing id. */
  unregister: 0x05,
  /** Agent to relay: routing id. An agent sends it once on a connection. */
  attach: 0x06,
  /** Relay to agent: a vault has just registered the routing id, or already had it. */
  present: 0x07,
  /** Relay to agent: no vault has the routing id. */
  absent: 0x08,
  /** Relay to vault: routing id. Another connection with the same proof has taken it over. */
  replaced: 0x09,
  /** Agent to relay and back: payload. */
  payload: 0x10,
  /** Relay to vault: connection (4), routing id (16), payload. */
  fromAgent: 0x11,
  /** Vault to relay: connection (4), payload. */
  toAgent: 0x12,
  /** Relay to vault: connection (4) that has closed. */
  gone: 0x13,
} as const

/**
 * The routing id of a public key, which is its hash. To register the id, a vault signs the relay's challenge with that key. So
 * no other vault can take the id, and the relay stores nothing.
 */
export const routeOf = (publicKey: Uint8Array): Buffer =>
  createHash('sha256').update(lengthPrefixed('tollgate-route/1', publicKey)).digest().subarray(0, routeBytes)

/** The bytes that a vault signs to register. */
export const registrationBytes = (challenge: Uint8Array, publicKey: Uint8Array): Buffer =>
  lengthPrefixed('tollgate-register/1', challenge, publicKey)

/** Joins a type and its fields. */
export const frame = (type: number, ...fields: readonly Uint8Array[]): Buffer =>
  Buffer.concat([Buffer.of(type), ...fields])

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
