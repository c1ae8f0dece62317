import { systemVaultClock } from '../../vault/ports/clock.ts'
import type { Vault } from '../../vault/ports/vault.ts'
import { createVault } from '../../vault/storage/createVault.ts'

export interface InitVaultOptions {
  readonly home: string
  readonly password: string
  readonly mnemonic: string | undefined
}

export interface NewVault {
  readonly vault_id: string
  readonly home: string
  /** Only when it was made here: shown once. */
  readonly mnemonic?: string
  readonly addresses: { readonly evm: string; readonly solana: string }
  /** Those on test chains, which are others: a signature there moves nothing elsewhere. */
  readonly test_addresses: { readonly evm: string; readonly solana: string }
}

/** The addresses that agents use, on chains where money is real and on test chains. */
export function addressesOf({ keys }: Vault): Pick<NewVault, 'addresses' | 'test_addresses'> {
  const of = (isTest: boolean) => ({
    evm: keys.default('evm', isTest).address,
    solana: keys.default('solana', isTest).address,
  })
  return { addresses: of(false), test_addresses: of(true) }
}

/** Makes a vault in an empty folder. @throws {VaultError} `VALIDATION_ERROR`, `VAULT_EXISTS`, `STORAGE_UNAVAILABLE` */
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
