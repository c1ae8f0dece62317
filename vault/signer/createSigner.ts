import { VaultError } from '../errors/error.ts'
import type { Signature, Signer, SignRequest } from '../ports/signer.ts'
import { signKinds } from './protocol.ts'
import type { SigningProcess } from './signingProcess.ts'

const REMEMBERED_IDS = 50_000
const LONGEST_ID = 128
const LONGEST_BYTES = 512 * 1024

/** The signer with the handles that its vault alone has. */
export interface OwnedSigner extends Signer {
  /** Takes a process over that holds the vault's keys; nothing is signed before. */
  start(process: SigningProcess): void
  /** Ends the process and waits for its end; `start` begins anew. Used request ids stay used. */
  stop(): Promise<void>
  /** The process that runs. @throws `VAULT_LOCKED` */
  readonly process: SigningProcess
  /** @throws `KEY_UNKNOWN`, `SIGNER_LOST`, `VAULT_LOCKED` */
  publicKey(keyId: string): Promise<Buffer>
  /** Of the child that runs, for tests and diagnosis. */
  readonly pid: number | undefined
}

export interface SignerSupport {
  /** Throws when the vault is locked. */
  beforeUse(): void
  /** The process ended and nobody ended it. With it went the master key: only the password brings it back. */
  lost(): void
}

/** A {@link Signer} over one process after the other, each of which holds the keys from an unlock to a lock. */
export function createSigner({ beforeUse, lost }: SignerSupport): OwnedSigner {
  const used = new Set<string>()
  let current: SigningProcess | undefined

  const running = (): SigningProcess => {
    if (current === undefined) throw new VaultError('VAULT_LOCKED')
    return current
  }

  const take = (requestId: string): void => {
    if (typeof requestId !== 'string' || requestId === '' || requestId.length > LONGEST_ID) {
      throw new VaultError('VALIDATION_ERROR', `Expected a request id of 1 to ${LONGEST_ID} characters.`)
    }
    if (used.has(requestId)) throw new VaultError('REQUEST_ID_USED')
    used.add(requestId)
    if (used.size > REMEMBERED_IDS) used.delete(used.values().next().value!)
  }

  return {
    async sign({ requestId, keyId, kind, bytes }: SignRequest): Promise<Signature> {
      beforeUse()
      assertSignable(keyId, kind, bytes)
      const child = running()
      take(requestId)
      return { bytes: await child.sign(keyId, kind, bytes) }
    },
    start(process) {
      current = process
      process.onLost(() => {
        if (current === process) lost()
      })
    },
    async stop() {
      const last = current
      current = undefined
      await last?.end()
    },
    get process() {
      return running()
    },
    async publicKey(keyId) {
      return running().publicKey(keyId)
    },
    get pid() {
      return current?.isAlive ? current.pid : undefined
    },
  }
}

function assertSignable(keyId: string, kind: SignRequest['kind'], bytes: Uint8Array): void {
  if (!signKinds.includes(kind)) {
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected a kind of ${signKinds.join(', ')}, got ${String(kind)}.`,
    )
  }
  if (Buffer.byteLength(keyId) > LONGEST_ID) throw new VaultError('KEY_UNKNOWN')
  if (bytes.length > LONGEST_BYTES) {
    throw new VaultError(
      'INVALID_TX',
      `Expected at most ${LONGEST_BYTES} bytes to sign, got ${bytes.length}.`,
    )
  }
}
