import { createKeyPair, fromStored, type KeyPair, type StoredKeyPair, toStored } from './channel/keyPair.ts'

/** One static HPKE key of a vault. */
export interface IdentityKey extends StoredKeyPair {
  /** 1 for the first; grows with every rotation. */
  readonly generation: number
  /** Milliseconds since 1970. */
  readonly createdAtMs: number
}

/**
 * What a vault is recognised by. Private: the host keeps it encrypted. The Ed25519 key never changes and is pinned by
 * every proxy when it pairs; the X25519 key can be rotated, because the Ed25519 key signs the next one.
 */
export interface VaultIdentity {
  readonly vaultId: string
  readonly signing: StoredKeyPair
  /** Newest first; the last ones before it still work, for proxies that have not heard of it. */
  readonly keys: readonly IdentityKey[]
}

/** How many old keys are kept: a proxy that was off during that many changes still finds its vault. */
const OLD_KEYS = 4

export function createVaultIdentity(vaultId: string, nowMs: number): VaultIdentity {
  return {
    vaultId,
    signing: toStored(createKeyPair('Ed25519')),
    keys: [{ ...toStored(createKeyPair('X25519')), generation: 1, createdAtMs: nowMs }],
  }
}

/**
 * The same identity with a new static key. Proxies learn of it the next time they say hello and switch by themselves;
 * tokens that were made before still work.
 */
export function rotateVaultIdentity(identity: VaultIdentity, nowMs: number): VaultIdentity {
  const generation = identity.keys[0]!.generation + 1
  const next = { ...toStored(createKeyPair('X25519')), generation, createdAtMs: nowMs }
  return { ...identity, keys: [next, ...identity.keys.slice(0, OLD_KEYS)] }
}

/** What the command line calls `--hpke-key`: the newest static public key, base64. */
export const hpkeKeyOf = (identity: VaultIdentity): string => identity.keys[0]!.publicKey

export const signingPairOf = (identity: VaultIdentity): KeyPair => fromStored(identity.signing)
