import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Clock } from '../../core/ports/clock.ts'
import { VaultError } from '../errors/error.ts'
import { replaceFile } from './files.ts'

const firstDelayMs = 1_000
const longestDelayMs = 60 * 60 * 1_000

interface Attempts {
  /** Wrong passwords in a row. */
  readonly failures: number
  /** Wall time of the last note. */
  readonly notedAtMs: number
}

/**
 * Makes wrong passwords slow: 1 s after the first, twice as long after each more, at most an hour. An attempt is on disk
 * as a failure before the password is tried, so that killing the process in between gains nothing, and neither does
 * a restart. Turning the clock back begins the wait anew; a missing or changed file waits the longest.
 */
export class Throttle {
  readonly #file: string
  readonly #clock: Clock
  #attempts: Attempts

  constructor(file: string, clock: Clock) {
    this.#file = file
    this.#clock = clock
    this.#attempts = this.#read()
  }

  /** Writes the file of a vault that is being made. */
  static create(file: string, clock: Clock): void {
    replaceFile(file, encode({ failures: 0, notedAtMs: clock.now() }))
  }

  /** Milliseconds until a password is looked at; 0 when at once. */
  waitMs(): number {
    const { failures, notedAtMs } = this.#attempts
    if (failures === 0) return 0
    const delayMs = delayAfter(failures)
    const now = this.#clock.now()
    if (now < notedAtMs) {
      this.#note({ failures, notedAtMs: now })
      return delayMs
    }
    return Math.max(0, notedAtMs + delayMs - now)
  }

  /**
   * Notes an attempt as failed, on disk.
   * @throws `TOO_MANY_ATTEMPTS` when it came too early; then nothing was noted.
   */
  begin(): void {
    const waitMs = this.waitMs()
    if (waitMs > 0) {
      const retryAfterSeconds = Math.ceil(waitMs / 1_000)
      throw new VaultError(
        'TOO_MANY_ATTEMPTS',
        `Expected no password for another ${retryAfterSeconds} s after a wrong one. This one was not looked at.`,
        { retryAfterSeconds },
      )
    }
    this.#note({ failures: this.#attempts.failures + 1, notedAtMs: this.#clock.now() })
  }

  /** The password was right: the next wrong one is the first again. */
  succeed(): void {
    this.#note({ failures: 0, notedAtMs: this.#clock.now() })
  }

  #note(attempts: Attempts): void {
    replaceFile(this.#file, encode(attempts))
    this.#attempts = attempts
  }

  #read(): Attempts {
    try {
      const bytes = readFileSync(this.#file)
      const { failures, notedAtMs } = JSON.parse(bytes.toString('utf8'))
      const attempts = { failures, notedAtMs }
      if (encode(attempts).equals(bytes)) return attempts
    } catch {
      // Missing or unreadable is the same as changed.
    }
    const longest = {
      failures: 1 + Math.ceil(Math.log2(longestDelayMs / firstDelayMs)),
      notedAtMs: this.#clock.now(),
    }
    replaceFile(this.#file, encode(longest))
    return longest
  }
}

function delayAfter(failures: number): number {
  return Math.min(longestDelayMs, firstDelayMs * 2 ** (failures - 1))
}

function encode({ failures, notedAtMs }: Attempts): Buffer {
  const checksum = createHash('sha256').update(`${failures} ${notedAtMs}`).digest('hex')
  return Buffer.from(`${JSON.stringify({ failures, notedAtMs, checksum })}\n`)
}
