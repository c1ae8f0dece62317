import { deriveKey } from '../storage/disk/aead.ts'

/**
 * What the process that speaks HTTP gets of the master key: a key for each thing that it must read, derived one way
 * (HKDF-SHA256, RFC 5869), so that none of them leads to the master key or to a record of keys. 32 bytes each.
 */
export interface HostKeys {
  /** Wraps the data keys of every record but those of keys: values, credentials, agents, policies, approvals, … */
  readonly records: Buffer
  /** Seals the file of the records. */
  readonly recordsFile: Buffer
  /** Seals the journal of the budgets. */
  readonly budgetFile: Buffer
  /** Codes the entries of the log. */
  readonly audit: Buffer
}

const uses: Readonly<Record<keyof HostKeys, string>> = {
  records: 'host records',
  recordsFile: 'host records file',
  budgetFile: 'host budget file',
  audit: 'audit',
}
const names = Object.keys(uses) as (keyof HostKeys)[]
const noSalt = new Uint8Array(0)

/** The host's keys one behind the other. The caller zeroes them. */
export function deriveHostKeys(masterKey: Uint8Array, vaultId: string): Buffer {
  const each = names.map((name) => deriveKey(masterKey, uses[name], vaultId, noSalt))
  const all = Buffer.concat(each)
  for (const key of each) key.fill(0)
  return all
}

/** Views of what {@link deriveHostKeys} gave. */
export function readHostKeys(bytes: Buffer): HostKeys {
  const keyBytes = bytes.length / names.length
  const keys = names.map((name, i) => [name, bytes.subarray(i * keyBytes, (i + 1) * keyBytes)] as const)
  return Object.fromEntries(keys) as unknown as HostKeys
}

export function zeroHostKeys(keys: HostKeys): void {
  for (const key of Object.values(keys)) key.fill(0)
}
