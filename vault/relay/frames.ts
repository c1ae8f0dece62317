import { createHash } from 'node:crypto'
import { lengthPrefixed } from '../remote/channel/lengthPrefixed.ts'

/** The largest frame a relay takes, in bytes; the largest sealed message and what stands around it fit. */
export const MAX_FRAME_BYTES = 512 * 1024

/** The slowest line that both ends wait for: 16 kB/s. */
const SLOWEST_BYTES_PER_MS = 16

/** How long a message takes on the slowest line, in milliseconds. */
export const transferMs = ({ byteLength }: Uint8Array): number => byteLength / SLOWEST_BYTES_PER_MS

/** The path a relay listens on. The routing id is not in it: paths are logged. */
export const relayPath = '/v1/relay'

export const routeBytes = 16
export const challengeBytes = 32
export const signatureBytes = 64

/** First byte of every frame. */
export const frameTypes = {
  /** Relay to all: 32 random bytes. First on every connection. */
  challenge: 0x01,
  /** Vault to relay: public key (32), signature (64) of {@link registrationBytes}. */
  register: 0x02,
  /** Relay to vault: routing id. It has it, or has it again because a newer connection is gone. */
  registered: 0x03,
  /** Relay to vault: routing id. The proof did not hold, or there are too many. */
  refused: 0x04,
  /** Vault to relay: routing id. */
  unregister: 0x05,
  /** Agent to relay: routing id. Once on a connection. */
  attach: 0x06,
  /** Relay to agent: a vault has just registered the routing id, or had before. */
  present: 0x07,
  /** Relay to agent: no vault has it. */
  absent: 0x08,
  /** Relay to vault: routing id; another connection with the same proof has taken it over. */
  replaced: 0x09,
  /** Agent to relay and back: payload. */
  payload: 0x10,
  /** Relay to vault: connection (4), routing id (16), payload. */
  fromAgent: 0x11,
  /** Vault to relay: connection (4), payload. */
  toAgent: 0x12,
  /** Relay to vault: connection (4) that is no more. */
  gone: 0x13,
} as const

/**
 * A routing id is the hash of a public key. Whoever registers it signs the relay's challenge with that key: nobody else
 * can take the id, and the relay has nothing to remember.
 */
export const routeOf = (publicKey: Uint8Array): Buffer =>
  createHash('sha256').update(lengthPrefixed('tollgate-route/1', publicKey)).digest().subarray(0, routeBytes)

/** What is signed to register. */
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
