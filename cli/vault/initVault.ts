import { systemVaultClock } from '../../vault/ports/clock.ts'
import type { Vault } from '../../vault/ports/vault.ts'
import { createVault } from '../../vault/storage/createVault.ts'
import { restoreVault, type Suspended } from '../../vault/storage/restoreVault.ts'

interface RestoredVault {
  readonly vault_id: string
  readonly home: string
  /** Agents and pairings that stay suspended until the owner resumes them. */
  readonly suspended: Suspended
  readonly addresses: NewVault['addresses']
  readonly test_addresses: NewVault['test_addresses']
}

/**
 * Creates a vault from a backup and closes it again.
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

export interface InitVaultOptions {
  readonly home: string
  readonly password: string
  readonly mnemonic: string | undefined
}

interface NewVault {
  readonly vault_id: string
  readonly home: string
  /** The recovery words, set only if they were generated here. They are shown only once. */
  readonly mnemonic?: string
  readonly addresses: { readonly evm: string; readonly solana: string }
  /** The addresses on test chains. They differ from the real ones, so that a signature on a test chain moves no real money. */
  readonly test_addresses: { readonly evm: string; readonly solana: string }
}

/** The addresses that agents use, on chains with real money and on test chains. */
function addressesOf({ keys }: Vault): Pick<NewVault, 'addresses' | 'test_addresses'> {
  const of = (isTest: boolean) => ({
    evm: keys.default('evm', isTest).address,
    solana: keys.default('solana', isTest).address,
  })
  return { addresses: of(false), test_addresses: of(true) }
}

/** Creates a vault in an empty folder. @throws {VaultError} `VALIDATION_ERROR`, `VAULT_EXISTS`, `STORAGE_UNAVAILABLE` */
export async function initVault({ home, password, mnemonic }: InitVaultOptions): Promise<NewVault> {
  const created = await createVault({
    home,
    password,
    ...(mnemonic !== undefined && { mnemonic }),
    clock: systemVaultClock,
  })
  const { vault } = created
  try {
    return {
      vault_id: vault.vaultId,
      home,
      ...(mnemonic === undefined && { mnemonic: created.mnemonic }),
      ...addressesOf(vault),
    }
  } finally {
    await vault.close()
  }
}
