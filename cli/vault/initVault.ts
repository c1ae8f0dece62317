import { systemVaultClock } from '../../vault/ports/clock.ts'
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
      addresses: { evm: vault.keys.default('evm').address, solana: vault.keys.default('solana').address },
    }
  } finally {
    await vault.close()
  }
}
