import { systemVaultClock } from '../../vault/ports/clock.ts'
import { restoreVault, type Suspended } from '../../vault/storage/restoreVault.ts'
import { addressesOf, type NewVault } from './initVault.ts'

export interface RestoredVault {
  readonly vault_id: string
  readonly home: string
  /** Agents and pairings that wait for the owner's word. */
  readonly suspended: Suspended
  readonly addresses: NewVault['addresses']
  readonly test_addresses: NewVault['test_addresses']
}

/**
 * Makes a vault out of a backup and closes it again.
 *
 * @throws {VaultError} `BAD_PASSWORD`, `VAULT_CORRUPT`, `VAULT_EXISTS`, `VAULT_IN_USE`
 */
export async function restoreHome(home: string, file: string, password: string): Promise<RestoredVault> {
  const { vault, suspended } = await restoreVault({ home, file, password, clock: systemVaultClock })
  try {
    return { vault_id: vault.vaultId, home, suspended, ...addressesOf(vault) }
  } finally {
    await vault.close()
  }
}
