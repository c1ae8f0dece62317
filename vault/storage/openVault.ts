import { existsSync } from 'node:fs'
import type { AuditLimits } from '../audit/dropOld.ts'
import { systemVaultClock, type VaultClock } from '../ports/clock.ts'
import type { PasswordHasher } from '../ports/passwordHasher.ts'
import type { Vault } from '../ports/vault.ts'
import { preparePrivateFolder, unwritable } from './disk/files.ts'
import { type HomeLock, takeHome } from './disk/homeLock.ts'
import { noVaultIn, vaultFiles } from './disk/vaultFiles.ts'
import { LocalVault } from './localVault.ts'
import { argon2idHasher } from './password/kdf.ts'
import type { AutoLockOptions } from './password/lockState.ts'

export interface OpenVaultOptions {
  /** The vault's folder; closed to other users. */
  readonly home: string
  /** Default: 15 minutes idle, 12 hours in all. */
  readonly autoLock?: Partial<AutoLockOptions>
  readonly clock?: VaultClock
  /** How much of the log is kept. Left out, nothing of it is dropped: not by a command that looks at a folder once. */
  readonly logLimits?: AuditLimits
  /** For tests. */
  readonly hasher?: PasswordHasher
}

export const defaultAutoLock: AutoLockOptions = { idleMs: 15 * 60_000, maxAgeMs: 12 * 60 * 60_000 }

/**
 * Opens the vault of a folder, locked, for this process alone.
 * @throws `VAULT_NOT_FOUND`, `VAULT_IN_USE`, `VAULT_CORRUPT`
 * @example
 * const vault = await openVault({ home: `${homedir()}/.tollgate/vault` })
 * await vault.unlock(password)
 * const { address } = vault.keys.default('solana')
 */
export async function openVault(options: OpenVaultOptions): Promise<Vault> {
  const files = vaultFiles(options.home)
  if (!existsSync(files.header)) throw noVaultIn(options.home)
  preparePrivateFolder(options.home)
  const lock = await takeHome(options.home)
  try {
    return openLocalVault(options, lock)
  } catch (error) {
    lock.release()
    throw unwritable(options.home, error)
  }
}

/** The vault of a folder that is taken already. */
export function openLocalVault(options: OpenVaultOptions, lock: HomeLock): LocalVault {
  return new LocalVault({
    files: vaultFiles(options.home, lock.isOurs),
    lock,
    clock: options.clock ?? systemVaultClock,
    hasher: options.hasher ?? argon2idHasher,
    autoLock: { ...defaultAutoLock, ...options.autoLock },
    ...(options.logLimits !== undefined && { logLimits: options.logLimits }),
  })
}
