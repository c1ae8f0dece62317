import { join } from 'node:path'
import type { SealedLogPlace } from './sealedLog.ts'

/** Where a vault's files are in its folder. */
export interface VaultFiles {
  readonly home: string
  readonly header: string
  readonly throttle: string
  readonly records: string
  readonly budget: string
  readonly auditFolder: string
  readonly auditHead: string
}

export function vaultFiles(home: string): VaultFiles {
  return {
    home,
    header: join(home, 'vault.json'),
    throttle: join(home, 'attempts.json'),
    records: join(home, 'records.log'),
    budget: join(home, 'budget.log'),
    auditFolder: join(home, 'audit'),
    auditHead: join(home, 'audit.head'),
  }
}

export function recordsPlace(files: VaultFiles, vaultId: string, masterKey: Uint8Array): SealedLogPlace {
  return { file: files.records, use: 'records', vaultId, masterKey }
}

export function budgetPlace(files: VaultFiles, vaultId: string, masterKey: Uint8Array): SealedLogPlace {
  return { file: files.budget, use: 'budget', vaultId, masterKey }
}
