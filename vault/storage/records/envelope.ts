import { randomBytes } from 'node:crypto'
import { keyBytes, lengthPrefixed, seal, sealOverheadBytes, unseal } from '../disk/aead.ts'

/** What a record's ciphertext belongs to; it opens as nothing else. */
export interface RecordName {
  readonly vaultId: string
  /** Collection and id, such as `value/identity.name`. */
  readonly scope: string
  readonly version: number
}

/** Of what a sealed record begins with: its data key, wrapped. */
const wrappedBytes = keyBytes + sealOverheadBytes

/**
 * Envelope encryption: the value under a data key of this record and version alone, the data key under the master key.
 * Wrapped data key ‖ sealed value, both bound to the record's name.
 */
export function sealRecord(masterKey: Uint8Array, name: RecordName, value: Uint8Array): Buffer {
  const dataKey = randomBytes(keyBytes)
  try {
    return Buffer.concat([
      seal(masterKey, dataKey, associated('key', name)),
      seal(dataKey, value, associated('value', name)),
    ])
  } finally {
    dataKey.fill(0)
  }
}

/** The value, or undefined when anything about it is another. The caller zeroes it. */
export function openRecord(masterKey: Uint8Array, name: RecordName, sealed: Uint8Array): Buffer | undefined {
  const dataKey = unseal(masterKey, sealed.subarray(0, wrappedBytes), associated('key', name))
  if (dataKey === undefined) return undefined
  try {
    return unseal(dataKey, sealed.subarray(wrappedBytes), associated('value', name))
  } finally {
    dataKey.fill(0)
  }
}

function associated(part: 'key' | 'value', { vaultId, scope, version }: RecordName): Buffer {
  return lengthPrefixed('tollgate vault record', part, vaultId, scope, String(version))
}
