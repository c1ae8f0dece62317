import { join } from 'node:path'
import { VaultError } from '../../errors/error.ts'
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
  /** Whether this process still has the folder. */
  readonly isOurs: () => boolean
}

/** @param isOurs of the lock of the folder */
export function vaultFiles(home: string, isOurs: () => boolean = () => true): VaultFiles {
  return {
    home,
    header: join(home, 'vault.json'),
    throttle: join(home, 'attempts.json'),
    records: join(home, 'records.log'),
    budget: join(home, 'budget.log'),
    auditFolder: join(home, 'audit'),
    auditHead: join(home, 'audit.head'),
    isOurs,
  }
}

/** @param key of the file of records, as the signing process gives it to the host */
export function recordsPlace(files: VaultFiles, vaultId: string, key: Uint8Array): SealedLogPlace {
  return { file: files.records, use: 'records', vaultId, masterKey: key, isOurs: files.isOurs }
}

/** @param key of the journal of budgets, as above */
export function budgetPlace(files: VaultFiles, vaultId: string, key: Uint8Array): SealedLogPlace {
  return { file: files.budget, use: 'budget', vaultId, masterKey: key, isOurs: files.isOurs }
}

/** What is said of a folder without `vault.json`, which is what makes it a vault's. */
export const noVaultIn = (home: string): VaultError =>
  new VaultError(
    'VAULT_NOT_FOUND',
    `Expected a vault in ${home}, but there is no vault.json. Make one with tollgate vault init, or name its folder with --home.`,
  )
