import { createHash, randomUUID } from 'node:crypto'
import { chmod, mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { StoredKeyPair } from '../channel/suite.ts'

const stateVersion = 1

/** A proxy's stored pairing. It is secret, so the file has mode 0600. Byte strings are base64. */
export interface ProxyState {
  readonly version: typeof stateVersion
  readonly vaultId: string
  readonly serviceId: string
  readonly route: string
  /** The vault's static key from the command. The next field is the current key after rotations. */
  readonly givenKey: string
  readonly hpkeKey: string
  /** Number of the newest key that the vault has announced. 0 before the first announcement. */
  readonly generation: number
  /** The proxy's own static key, which authenticates it as the agent. */
  readonly staticKey: StoredKeyPair
  /** The nonce of the proxy's commitment during pairing. */
  readonly nonce: string
  /** Hash of the token that the proxy used, to recognize that the same command is run again. */
  readonly tokenHash: string
  /** The vault's response to the token. */
  readonly vault?: { readonly signingKey: string; readonly headerKey: string; readonly vaultNonce: string }
  readonly isPaired: boolean
}

export interface ProxyStateFile {
  /** The pairing in use. @throws Error naming a file that cannot be read */
  read(): Promise<ProxyState | undefined>
  /** Reads a pairing that was started and not finished. */
  readPending(): Promise<ProxyState | undefined>
  /**
   * Writes the pairing in use or the pending one, depending on `isPaired`. Fulfilled when it is on disk. A finished pairing
   * replaces the pending one.
   */
  write(state: ProxyState): Promise<void>
  removePending(): Promise<void>
}

/** The state file of one service's pairing with one vault, in a folder that only its owner can access. */
export function openProxyState(home: string, vaultId: string, serviceId: string): ProxyStateFile {
  const name = createHash('sha256')
    .update(JSON.stringify([vaultId, serviceId]))
    .digest('hex')
    .slice(0, 24)
  const file = join(home, `proxy-${name}.json`)
  const pendingFile = join(home, `proxy-${name}.pending.json`)
  const removePending = () => rm(pendingFile, { force: true })
  return {
    read: () => readState(file),
    readPending: () => readState(pendingFile),
    async write(state) {
      await writePrivately(home, state.isPaired ? file : pendingFile, `${JSON.stringify(state, null, 2)}\n`)
      if (state.isPaired) await removePending()
    },
    removePending,
  }
}

/** Writes a file that only its owner can read, completely or not at all. The folder gets mode 0700 and the file 0600. */
export async function writePrivately(folder: string, file: string, text: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await chmod(folder, 0o700)
  const draft = `${file}.${randomUUID()}.tmp`
  const handle = await open(draft, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(draft, file)
}

async function readState(file: string): Promise<ProxyState | undefined> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (text === undefined) return undefined
  const state = parse(text)
  if (state?.version === stateVersion && typeof state.staticKey?.privateKey === 'string')
    return state as ProxyState
  // The messages do not quote the file, because it is secret.
  if (typeof state?.version === 'number' && state.version > stateVersion)
    throw new Error(
      `Expected version ${stateVersion} of ${file}, got version ${state.version}, which a newer version of Tollgate wrote. ` +
        'Install that version again, or remove the file and pair again with a new token.',
    )
  throw new Error(`${file} is damaged. Remove the file and pair again with a new token.`)
}

function parse(text: string): (Omit<Partial<ProxyState>, 'version'> & { readonly version?: unknown }) | null {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
