import { readFileSync } from 'node:fs'
import { isVaultError, VaultError } from '../../errors/error.ts'
import type { VaultClock } from '../../ports/clock.ts'
import type { PasswordHasher } from '../../ports/passwordHasher.ts'
import type { Door } from '../../ports/vault.ts'
import type { Proof } from '../../signer/protocol.ts'
import type { SigningProcess } from '../../signer/signingProcess.ts'
import { replaceFile } from '../disk/files.ts'
import type { VaultFiles } from '../disk/vaultFiles.ts'
import {
  associatedOf,
  decodeHeader,
  encodeHeader,
  headerFor,
  passwordKeyOf,
  proofOf,
  type VaultHeader,
} from './header.ts'
import { Throttle } from './throttle.ts'

/** The header of a vault and what its password opens: slowly, and only by the process that can tell the right one. */
export class PasswordGate {
  readonly #file: string
  readonly #throttle: Throttle
  readonly #hasher: PasswordHasher
  #header: VaultHeader
  #isClosed = false

  constructor(files: VaultFiles, clock: VaultClock, hasher: PasswordHasher) {
    this.#file = files.header
    this.#header = decodeHeader(readFileSync(files.header))
    this.#throttle = new Throttle(files.throttle, clock)
    this.#hasher = hasher
  }

  get header(): VaultHeader {
    return this.#header
  }

  /** Milliseconds until a password is looked at; 0 when at once. */
  waitMs(door: Door): number {
    return this.#throttle.waitMs(door)
  }

  /** No password is looked at any more. */
  close(): void {
    this.#isClosed = true
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /**
   * Asks for the password, throttled. `prove` shows the key that it gives to the signing process; what comes after that
   * does not count as an attempt.
   * @throws `BAD_PASSWORD`, `TOO_MANY_ATTEMPTS`, `VAULT_LOCKED` when closed
   */
  async prove<P, T>(
    password: string,
    door: Door,
    prove: (proof: Proof) => Promise<P>,
    act?: (proof: Proof, proved: P) => Promise<T>,
  ): Promise<T | undefined> {
    if (this.#isClosed) throw new VaultError('VAULT_LOCKED', 'The vault was closed.')
    if (typeof password !== 'string')
      throw new VaultError('VALIDATION_ERROR', 'Expected the password as a text.')
    this.#throttle.begin(door)
    const passwordKey = await passwordKeyOf(this.#header, password, this.#hasher)
    const proof = proofOf(this.#header, passwordKey)
    try {
      const proved = await prove(proof).catch((error: unknown) => {
        if (isVaultError(error) && error.code === 'SIGNER_LOST') this.#throttle.takeBack(door)
        if (!isVaultError(error) || error.code !== 'BAD_PASSWORD') throw error
        const retryAfterSeconds = Math.ceil(this.#throttle.waitMs(door) / 1_000)
        throw new VaultError('BAD_PASSWORD', undefined, { retryAfterSeconds })
      })
      this.#throttle.succeed(door)
      return await act?.(proof, proved)
    } finally {
      passwordKey.fill(0)
    }
  }

  /**
   * Has the master key wrapped for another password, and keeps that in the header.
   * @param files is given what `prove` gave, and says what the header keeps of the other files
   * @throws as {@link PasswordGate.prove}
   */
  async change<P>(
    process: SigningProcess,
    current: string,
    next: string,
    prove: (proof: Proof) => Promise<P>,
    files: (proved: P) => string,
  ): Promise<void> {
    await this.prove(current, 'socket', prove, async (proof, proved) => {
      const open = headerFor({ ...this.#header, files: files(proved) })
      const passwordKey = await passwordKeyOf(open, next, this.#hasher)
      try {
        const wrappedKey = await process.wrap(proof, passwordKey, associatedOf(open))
        const header = { ...open, wrappedKey }
        replaceFile(this.#file, encodeHeader(header))
        this.#header = header
      } finally {
        passwordKey.fill(0)
      }
    })
  }
}
