import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Clock } from '../../../core/ports/clock.ts'
import { replaceFile, type VaultFiles } from '../../disk/files.ts'
import { homeLost } from '../../disk/homeLock.ts'
import { isVaultError, VaultError } from '../../errors/error.ts'
import type { VaultClock } from '../../ports/clock.ts'
import type { Transport } from '../../ports/vault.ts'
import type { Proof } from '../../signer/protocol.ts'
import type { SigningProcess } from '../../signer/signingProcess.ts'
import {
  associatedOf,
  decodeHeader,
  encodeHeader,
  type HeaderPlace,
  headerFor,
  passwordKeyOf,
  proofOf,
  type VaultHeader,
} from './header.ts'
import type { PasswordHasher } from './kdf.ts'

/**
 * The header of a vault, and all work that requires its password. Checking a password is slow, and only the signing process
 * does it.
 */
export class PasswordGate {
  readonly #file: string
  readonly #throttle: Throttle
  readonly #hasher: PasswordHasher
  readonly #isOurs: () => boolean
  #header: VaultHeader
  #isClosed = false

  constructor(files: VaultFiles, clock: VaultClock, hasher: PasswordHasher, isOurs: () => boolean) {
    this.#file = files.header
    this.#header = decodeHeader(readFileSync(files.header))
    this.#throttle = new Throttle(files.throttle, clock)
    this.#hasher = hasher
    this.#isOurs = isOurs
  }

  get header(): VaultHeader {
    return this.#header
  }

  /** Time until another password is checked, in ms. 0 if it would be checked at once. */
  waitMs(transport: Transport): number {
    return this.#throttle.waitMs(transport)
  }

  /** Refuses all further passwords. */
  close(): void {
    this.#isClosed = true
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /**
   * Checks the password, throttled. `prove` passes the password's key to the signing process. Later failures do not count as
   * wrong passwords.
   * @throws `BAD_PASSWORD`, `TOO_MANY_ATTEMPTS`, `VAULT_LOCKED` when closed
   */
  async prove<P, T>(
    password: string,
    transport: Transport,
    prove: (proof: Proof) => Promise<P>,
    act?: (proof: Proof, proved: P) => Promise<T>,
  ): Promise<T | undefined> {
    if (this.#isClosed) throw new VaultError('VAULT_LOCKED', 'The vault was closed.')
    if (typeof password !== 'string')
      throw new VaultError('VALIDATION_ERROR', 'Expected the password as a string.')
    this.#throttle.begin(transport)
    const passwordKey = await passwordKeyOf(this.#header, password, this.#hasher)
    const proof = proofOf(this.#header, passwordKey)
    try {
      const proved = await prove(proof).catch((error: unknown) => {
        if (isVaultError(error) && error.code === 'SIGNER_LOST') this.#throttle.takeBack(transport)
        if (!isVaultError(error) || error.code !== 'BAD_PASSWORD') throw error
        const retryAfterSeconds = Math.ceil(this.#throttle.waitMs(transport) / 1_000)
        throw new VaultError('BAD_PASSWORD', undefined, { retryAfterSeconds })
      })
      this.#throttle.succeed(transport)
      return await act?.(proof, proved)
    } finally {
      passwordKey.fill(0)
    }
  }

  /**
   * Wraps the master key for another password, and stores the result in the header.
   * @param place gets the result of `prove`, and returns the values that the header records about the database
   * @returns these values
   * @throws as {@link PasswordGate.prove}
   */
  async change<P>(
    process: SigningProcess,
    current: string,
    next: string,
    prove: (proof: Proof) => Promise<P>,
    place: (proved: P) => HeaderPlace,
  ): Promise<HeaderPlace> {
    await this.prove(current, 'socket', prove, async (proof, proved) => {
      const open = headerFor({ ...this.#header, place: place(proved) })
      const passwordKey = await passwordKeyOf(open, next, this.#hasher)
      try {
        const wrappedKey = await process.wrap(proof, passwordKey, associatedOf(open))
        const header = { ...open, wrappedKey }
        if (!this.#isOurs()) throw homeLost()
        replaceFile(this.#file, encodeHeader(header))
        this.#header = header
      } finally {
        passwordKey.fill(0)
      }
    })
    return this.#header.place
  }
}

const FIRST_DELAY_MS = 1_000
const LONGEST_DELAY_MS = 60 * 60 * 1_000

const transports: readonly Transport[] = ['socket', 'page']

interface Attempts {
  /** Number of consecutive wrong passwords. */
  readonly failures: number
  /** Wall time of the last recorded attempt, in ms since 1970. */
  readonly notedAtMs: number
}

type AttemptsByTransport = Readonly<Record<Transport, Attempts>>

/**
 * Delays attempts after wrong passwords: 1 s after the first, doubled after each further one, at most an hour. An attempt is
 * recorded on disk as a failure before the password is checked, so an attacker gains nothing by killing or restarting the
 * process. Setting the clock back restarts the delay. If the file is missing or was changed, the longest delay applies.
 *
 * The socket and the page have separate counts, so that a stolen browser session cannot delay the owner's socket.
 */
export class Throttle {
  readonly #file: string
  readonly #clock: Clock
  #attempts: AttemptsByTransport

  constructor(file: string, clock: Clock) {
    this.#file = file
    this.#clock = clock
    this.#attempts = this.#read()
  }

  /** Writes the file of a vault that is being created. */
  static create(file: string, clock: Clock): void {
    replaceFile(file, encode(everywhere({ failures: 0, notedAtMs: clock.now() })))
  }

  /** Time until another password is checked, in ms. 0 if it would be checked at once. */
  waitMs(transport: Transport = 'socket'): number {
    const { failures, notedAtMs } = this.#attempts[transport]
    if (failures === 0) return 0
    const delayMs = delayAfter(failures)
    const now = this.#clock.now()
    if (now < notedAtMs) {
      this.#note(transport, { failures, notedAtMs: now })
      return delayMs
    }
    return Math.max(0, notedAtMs + delayMs - now)
  }

  /**
   * Records an attempt on disk as failed.
   * @throws `TOO_MANY_ATTEMPTS` if the attempt came too early. Nothing is recorded then
   */
  begin(transport: Transport = 'socket'): void {
    const waitMs = this.waitMs(transport)
    if (waitMs > 0) {
      const retryAfterSeconds = Math.ceil(waitMs / 1_000)
      throw new VaultError(
        'TOO_MANY_ATTEMPTS',
        `Expected no password for another ${retryAfterSeconds} s after a wrong one. This password was not checked.`,
        { retryAfterSeconds },
      )
    }
    this.#note(transport, { failures: this.#attempts[transport].failures + 1, notedAtMs: this.#clock.now() })
  }

  /** Removes the recorded attempt, because the password was not checked. */
  takeBack(transport: Transport = 'socket'): void {
    this.#note(transport, { failures: this.#attempts[transport].failures - 1, notedAtMs: this.#clock.now() })
  }

  /** Resets the count, because the password was correct. */
  succeed(transport: Transport = 'socket'): void {
    this.#note(transport, { failures: 0, notedAtMs: this.#clock.now() })
  }

  #note(transport: Transport, attempts: Attempts): void {
    const all = { ...this.#attempts, [transport]: attempts }
    replaceFile(this.#file, encode(all))
    this.#attempts = all
  }

  #read(): AttemptsByTransport {
    try {
      const bytes = readFileSync(this.#file)
      const { socket, page } = JSON.parse(bytes.toString('utf8'))
      const attempts = { socket: plain(socket), page: plain(page) }
      if (encode(attempts).equals(bytes)) return attempts
    } catch {
      // A missing or unreadable file counts as changed.
    }
    const longest = everywhere({
      failures: 1 + Math.ceil(Math.log2(LONGEST_DELAY_MS / FIRST_DELAY_MS)),
      notedAtMs: this.#clock.now(),
    })
    replaceFile(this.#file, encode(longest))
    return longest
  }
}

function delayAfter(failures: number): number {
  return Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1))
}

const everywhere = (attempts: Attempts): AttemptsByTransport => ({ socket: attempts, page: attempts })
const plain = ({ failures, notedAtMs }: Attempts): Attempts => ({ failures, notedAtMs })

function encode(all: AttemptsByTransport): Buffer {
  const text = transports
    .map((transport) => `${transport} ${all[transport].failures} ${all[transport].notedAtMs}`)
    .join(' ')
  const checksum = createHash('sha256').update(text).digest('hex')
  return Buffer.from(`${JSON.stringify({ socket: plain(all.socket), page: plain(all.page), checksum })}\n`)
}
