import { createKeyPair, fromStored, type KeyPair, type StoredKeyPair, toStored } from '../channel/suite.ts'

/** One static HPKE key of a vault. */
export interface IdentityKey extends StoredKeyPair {
  /** 1 for the first key, increased with every rotation. */
  readonly generation: number
  /** Milliseconds since 1970. */
  readonly createdAtMs: number
}

/**
 * The keys that identify a vault. They are private, and the host stores them encrypted. The Ed25519 key never changes, and
 * every proxy pins it when it pairs. The X25519 key can be rotated, because the Ed25519 key signs the next one.
 */
export interface VaultIdentity {
  readonly vaultId: string
  readonly signing: StoredKeyPair
  /** The keys, newest first. Older keys still work, for proxies that do not have the newest key yet. */
  readonly keys: readonly IdentityKey[]
}

/** Maximum number of old keys. A proxy that was off during this many rotations can still reach its vault. */
const OLD_KEYS = 4

export function createVaultIdentity(vaultId: string, nowMs: number): VaultIdentity {
  return {
    vaultId,
    signing: toStored(createKeyPair('Ed25519')),
    keys: [{ ...toStored(createKeyPair('X25519')), generation: 1, createdAtMs: nowMs }],
  }
}

/**
 * The same identity with a new static key. Proxies receive the key with their next greeting and switch to it automatically.
 * Older tokens still work.
 */
export function rotateVaultIdentity(identity: VaultIdentity, nowMs: number): VaultIdentity {
  const generation = identity.keys[0]!.generation + 1
  const next = { ...toStored(createKeyPair('X25519')), generation, createdAtMs: nowMs }
  return { ...identity, keys: [next, ...identity.keys.slice(0, OLD_KEYS)] }
}

/** The value of `--hpke-key`: the newest static public key, base64. */
export const hpkeKeyOf = (identity: VaultIdentity): string => identity.keys[0]!.publicKey

export const signingPairOf = (identity: VaultIdentity): KeyPair => fromStored(identity.signing)
