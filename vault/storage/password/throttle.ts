import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Clock } from '../../../core/ports/clock.ts'
import { VaultError } from '../../errors/error.ts'
import type { Door } from '../../ports/vault.ts'
import { replaceFile } from '../disk/files.ts'

const FIRST_DELAY_MS = 1_000
const LONGEST_DELAY_MS = 60 * 60 * 1_000

const doors: readonly Door[] = ['socket', 'page']

interface Attempts {
  /** Wrong passwords in a row. */
  readonly failures: number
  /** Wall time of the last note. */
  readonly notedAtMs: number
}

type AttemptsByDoor = Readonly<Record<Door, Attempts>>

/**
 * Makes wrong passwords slow: 1 s after the first, twice as long after each more, at most an hour. An attempt is on disk
 * as a failure before the password is tried, so that killing the process in between gains nothing, and neither does
 * a restart. Turning the clock back begins the wait anew; a missing or changed file waits the longest.
 *
 * Each door has a count of its own: a session of the page that was stolen must not make the owner's socket wait.
 */
export class Throttle {
  readonly #file: string
  readonly #clock: Clock
  #attempts: AttemptsByDoor

  constructor(file: string, clock: Clock) {
    this.#file = file
    this.#clock = clock
    this.#attempts = this.#read()
  }

  /** Writes the file of a vault that is being made. */
  static create(file: string, clock: Clock): void {
    replaceFile(file, encode(everywhere({ failures: 0, notedAtMs: clock.now() })))
  }

  /** Milliseconds until a password is looked at; 0 when at once. */
  waitMs(door: Door = 'socket'): number {
    const { failures, notedAtMs } = this.#attempts[door]
    if (failures === 0) return 0
    const delayMs = delayAfter(failures)
    const now = this.#clock.now()
    if (now < notedAtMs) {
      this.#note(door, { failures, notedAtMs: now })
      return delayMs
    }
    return Math.max(0, notedAtMs + delayMs - now)
  }

  /**
   * Notes an attempt as failed, on disk.
   * @throws `TOO_MANY_ATTEMPTS` when it came too early; then nothing was noted.
   */
  begin(door: Door = 'socket'): void {
    const waitMs = this.waitMs(door)
    if (waitMs > 0) {
      const retryAfterSeconds = Math.ceil(waitMs / 1_000)
      throw new VaultError(
        'TOO_MANY_ATTEMPTS',
        `Expected no password for another ${retryAfterSeconds} s after a wrong one. This one was not looked at.`,
        { retryAfterSeconds },
      )
    }
    this.#note(door, { failures: this.#attempts[door].failures + 1, notedAtMs: this.#clock.now() })
  }

  /** The password was not looked at: that an attempt was begun counts for nothing. */
  takeBack(door: Door = 'socket'): void {
    this.#note(door, { failures: this.#attempts[door].failures - 1, notedAtMs: this.#clock.now() })
  }

  /** The password was right: the next wrong one is the first again. */
  succeed(door: Door = 'socket'): void {
    this.#note(door, { failures: 0, notedAtMs: this.#clock.now() })
  }

  #note(door: Door, attempts: Attempts): void {
    const all = { ...this.#attempts, [door]: attempts }
    replaceFile(this.#file, encode(all))
    this.#attempts = all
  }

  #read(): AttemptsByDoor {
    try {
      const bytes = readFileSync(this.#file)
      const { socket, page } = JSON.parse(bytes.toString('utf8'))
      const attempts = { socket: plain(socket), page: plain(page) }
      if (encode(attempts).equals(bytes)) return attempts
    } catch {
      // Missing or unreadable is the same as changed.
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

const everywhere = (attempts: Attempts): AttemptsByDoor => ({ socket: attempts, page: attempts })
const plain = ({ failures, notedAtMs }: Attempts): Attempts => ({ failures, notedAtMs })

function encode(all: AttemptsByDoor): Buffer {
  const text = doors.map((door) => `${door} ${all[door].failures} ${all[door].notedAtMs}`).join(' ')
  const checksum = createHash('sha256').update(text).digest('hex')
  return Buffer.from(`${JSON.stringify({ socket: plain(all.socket), page: plain(all.page), checksum })}\n`)
}
