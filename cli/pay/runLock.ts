import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isVaultError } from '../../vault/errors/error.ts'
import { takeHome } from '../../vault/storage/homeLock.ts'

/** A released lock's folder stays for a process that looked at it before; none looks for a week. */
const KEEP_MS = 7 * 86_400_000

export interface RunLock {
  release(): void
}

/**
 * Takes one command for this run, so that two runs at the same time do not each sign a payment. The lock of a run that was
 * killed is free again. The locks lie beside the folder of payments, in which there is nothing but what can be resumed.
 *
 * @param commandId from {@link import('./paymentFile.ts').idOfCommand}
 * @returns undefined while another run has it   @throws an error of the file system
 */
export async function lockCommand(stateDir: string, commandId: string): Promise<RunLock | undefined> {
  const locks = `${stateDir}-locks`
  await mkdir(locks, { recursive: true, mode: 0o700 })
  await removeOld(locks)
  const folder = join(locks, commandId)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  try {
    return takeHome(folder)
  } catch (error) {
    if (isVaultError(error) && error.code === 'VAULT_IN_USE') return undefined
    throw error
  }
}

async function removeOld(locks: string): Promise<void> {
  for (const name of await readdir(locks)) {
    const folder = join(locks, name)
    const changedMs = (await stat(folder).catch(() => undefined))?.mtimeMs ?? Number.NaN
    if (changedMs < Date.now() - KEEP_MS) await rm(folder, { recursive: true, force: true })
  }
}
