import { VaultError } from '../errors/error.ts'

/** What is said of a folder without `vault.json`, which is what makes it a vault's. */
export const noVaultIn = (home: string): VaultError =>
  new VaultError(
    'VAULT_NOT_FOUND',
    `Expected a vault in ${home}, but there is no vault.json. Make one with tollgate vault init, or name its folder with --home.`,
  )
