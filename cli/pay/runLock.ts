import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { isVaultError } from '../../vault/errors/error.ts'
import { type BeatingLock, type ForeignLock, foreignLockOf, takeHome } from '../../vault/storage/homeLock.ts'

/** How often a run shows that it lives, in ms. */
const BEAT_MS = 1_000
/** So many beats must be missed in a row. */
const LOOKS = 10
/** A released lock's folder stays for a process that looked at it before; none looks for a week. */
const KEEP_MS = 7 * 86_400_000

export interface RunLock {
  release(): void
  /** False after a standstill in which another run took this one for gone. */
  isOurs(): boolean
}

/**
 * Takes one command for this run, so that two runs at the same time do not each sign a payment. The lock of a run that was
 * killed is free again. The locks lie beside the folder of payments, in which there is nothing but what can be resumed.
 *
 * In a container that was started anew, the process of an older lock can't be asked about. It is watched instead: a run
 * that lives touches its lock every second. No clock is compared.
 *
 * @param commandId from {@link import('./paymentFile.ts').idOfCommand}
 * @param betweenLooks for tests
 * @returns undefined while another run has it   @throws an error of the file system
 */
export async function lockCommand(
  stateDir: string,
  commandId: string,
  betweenLooks: () => Promise<unknown> = () => wait(BEAT_MS),
): Promise<RunLock | undefined> {
  const locks = `${stateDir}-locks`
  await mkdir(locks, { recursive: true, mode: 0o700 })
  await removeOld(locks)
  const folder = join(locks, commandId)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const lock = take(folder) ?? (await takeAbandoned(folder, betweenLooks))
  if (lock === undefined) return undefined
  const beats = setInterval(() => lock.beat(), BEAT_MS).unref()
  return {
    isOurs: () => lock.beat(),
    release() {
      clearInterval(beats)
      lock.release()
    },
  }
}

function take(folder: string, abandoned?: ForeignLock): BeatingLock | undefined {
  try {
    return takeHome(folder, abandoned)
  } catch (error) {
    if (isVaultError(error) && error.code === 'VAULT_IN_USE') return undefined
    throw error
  }
}

async function takeAbandoned(
  folder: string,
  betweenLooks: () => Promise<unknown>,
): Promise<BeatingLock | undefined> {
  const first = foreignLockOf(folder)
  if (first === undefined) return undefined
  for (let look = 0; look < LOOKS; look++) {
    await betweenLooks()
    const now = foreignLockOf(folder)
    if (now?.text !== first.text || now.beatAtMs !== first.beatAtMs) return take(folder)
  }
  return take(folder, first)
}

async function removeOld(locks: string): Promise<void> {
  for (const name of await readdir(locks)) {
    const folder = join(locks, name)
    const changedMs = (await stat(folder).catch(() => undefined))?.mtimeMs ?? Number.NaN
    if (changedMs < Date.now() - KEEP_MS) await rm(folder, { recursive: true, force: true })
  }
}
