import { randomInt } from 'node:crypto'

/** A caller counts once for each link within this time, in ms. */
const ONCE_MS = 3_600_000
/**
 * Maximum callers that are remembered, at 36 bytes each. When the table is full, the oldest caller is forgotten, and counts again
 * if it returns.
 */
const MAX_CALLERS = 131_072
/** Initial capacity, in callers. The capacity doubles when it is full. */
const FIRST_CALLERS = 1_024

/** The callers who saw links in the last hour. Each worker process has its own table. */
export class Views {
  #table: Table
  readonly #maxCallers: number
  /** Random, so that a caller cannot choose identities that all fall into one bucket of the table. */
  readonly seed = randomInt(2 ** 32)

  /** @param maxCallers a power of two */
  constructor(maxCallers = MAX_CALLERS) {
    this.#maxCallers = maxCallers
    this.#table = new Table(Math.min(FIRST_CALLERS, maxCallers))
  }

  /**
   * Whether a caller of a link has to be counted now. Also records the caller as counted.
   *
   * @param high one half of the hash of link and caller. `low` is the other half
   */
  isNew(high: number, low: number, atMs: number): boolean {
    const table = this.#table
    const known = table.find(high, low)
    if (known !== NONE) {
      // The difference is absolute, because otherwise a clock that was set back could exclude a caller permanently.
      if (Math.abs(atMs - table.atMs(known)) < ONCE_MS) return false
      table.forget(known)
    } else if (table.isFull) {
      if (table.size < this.#maxCallers) this.#table = table.doubled()
      else table.forgetLongestKnown()
    }
    this.#table.add(high, low, atMs)
    return true
  }
}

/**
 * A link and its callers. It remembers the last counted caller, who is usually the next to call. That saves a lookup in the table,
 * which is slow with very many links, because the CPU caches cannot hold the table.
 */
export class SeenLink {
  readonly #views: Views
  /** A hash of the link's id in two halves. The hash of link and caller continues from it. */
  readonly #a: number
  readonly #b: number
  #lastHigh = 0
  #lastLow = 0
  /** Time of the last counted caller in seconds since 2020. `NEVER` before the first caller. */
  #lastAtSeconds = NEVER

  constructor(views: Views, linkId: string) {
    this.#views = views
    let a = views.seed | 0
    let b = ~views.seed
    for (let i = 0; i < linkId.length; i++) {
      const c = linkId.charCodeAt(i)
      a = Math.imul(a ^ c, 0x01000193)
      b = Math.imul(b ^ c, 0x85ebca6b)
      b ^= b >>> 15
    }
    this.#a = a
    this.#b = b
  }

  /**
   * Whether this caller has to be counted now. Also records the caller as counted. A caller is identified by a 64-bit hash. Two
   * callers with the same hash count as one, which is very rare and costs one view.
   *
   * @param caller see {@link import('../../core/http/caller.ts').callerOf}
   */
  isNew(caller: string, atMs: number): boolean {
    let a = this.#a
    let b = this.#b
    for (let i = 0; i < caller.length; i++) {
      const c = caller.charCodeAt(i) + 0x100
      a = Math.imul(a ^ c, 0x01000193)
      b = Math.imul(b ^ c, 0x85ebca6b)
      b ^= b >>> 15
    }
    const high = Math.imul(a ^ (a >>> 16), 0x45d9f3b)
    const low = Math.imul(b ^ (b >>> 13), 0xc2b2ae35)
    const atSeconds = secondsOf(atMs)
    // In the hour's last second the table decides, because it has times in milliseconds.
    const isLast = high === this.#lastHigh && low === this.#lastLow
    if (isLast && Math.abs(atSeconds - this.#lastAtSeconds) < ONCE_MS / 1_000 - 1) return false
    if (!this.#views.isNew(high, low, atMs)) return false
    this.#lastHigh = high
    this.#lastLow = low
    this.#lastAtSeconds = atSeconds
    return true
  }
}

const NEVER = -(2 ** 31)
/** Start of the count of seconds, the year 2020. 32 bits then reach equally far before and after it. */
const FROM_SECONDS = 1_577_836_800

const secondsOf = (atMs: number): number => Math.floor(atMs / 1_000) - FROM_SECONDS

const NONE = -1

// Positions of a caller's fields, which are side by side so that a lookup reads one place of memory.
const [HIGH, LOW, OTHER, NEXT, BEFORE, AT_SECONDS, AT_MS] = [0, 1, 2, 3, 4, 5, 6]
const EACH = 8

/**
 * Callers by hash, in the order in which they were counted. The table is an array of numbers, so a new caller creates no garbage. A
 * map of strings would cost time in garbage collection, because each string lives long enough to be copied.
 */
class Table {
  readonly size: number
  /**
   * For each caller: the hash, the next caller in the same bucket, the callers that were counted next and before (a ring), and the
   * time.
   */
  readonly #callers: Int32Array
  /** The first caller of each bucket. */
  readonly #first: Int32Array
  #longestKnown = NONE
  /** The first free index. Its `NEXT` is the next free index. */
  #free = 0

  constructor(size: number) {
    this.size = size
    this.#callers = new Int32Array(size * EACH).fill(NONE)
    this.#first = new Int32Array(size).fill(NONE)
    for (let i = 0; i < size - 1; i++) this.#callers[i * EACH + NEXT] = i + 1
  }

  get isFull(): boolean {
    return this.#free === NONE
  }

  /** When a caller was counted, in ms since 1970. */
  atMs(at: number): number {
    const seconds = this.#callers[at * EACH + AT_SECONDS]! + FROM_SECONDS
    return seconds * 1_000 + this.#callers[at * EACH + AT_MS]!
  }

  find(high: number, low: number): number {
    const callers = this.#callers
    let at = this.#first[low & (this.size - 1)]!
    while (at !== NONE && (callers[at * EACH + LOW] !== low || callers[at * EACH + HIGH] !== high))
      at = callers[at * EACH + OTHER]!
    return at
  }

  /** Adds a caller. The table must not be full. */
  add(high: number, low: number, atMs: number): void {
    const callers = this.#callers
    const at = this.#free
    this.#free = callers[at * EACH + NEXT]!
    const slot = low & (this.size - 1)
    const seconds = secondsOf(atMs)
    callers[at * EACH + HIGH] = high
    callers[at * EACH + LOW] = low
    callers[at * EACH + OTHER] = this.#first[slot]!
    callers[at * EACH + AT_SECONDS] = seconds
    callers[at * EACH + AT_MS] = atMs - (seconds + FROM_SECONDS) * 1_000
    this.#first[slot] = at
    const last = this.#longestKnown === NONE ? at : callers[this.#longestKnown * EACH + BEFORE]!
    if (this.#longestKnown === NONE) this.#longestKnown = at
    this.#join(last, at)
    this.#join(at, this.#longestKnown)
  }

  forget(at: number): void {
    const callers = this.#callers
    const slot = callers[at * EACH + LOW]! & (this.size - 1)
    const other = callers[at * EACH + OTHER]!
    if (this.#first[slot] === at) this.#first[slot] = other
    else {
      let before = this.#first[slot]!
      while (callers[before * EACH + OTHER] !== at) before = callers[before * EACH + OTHER]!
      callers[before * EACH + OTHER] = other
    }
    const next = callers[at * EACH + NEXT]!
    this.#join(callers[at * EACH + BEFORE]!, next)
    if (this.#longestKnown === at) this.#longestKnown = next === at ? NONE : next
    callers[at * EACH + NEXT] = this.#free
    this.#free = at
  }

  forgetLongestKnown(): void {
    this.forget(this.#longestKnown)
  }

  /** A table of twice the size with the same callers. */
  doubled(): Table {
    const larger = new Table(this.size * 2)
    const callers = this.#callers
    for (let left = this.size, at = this.#longestKnown; left > 0; left--, at = callers[at * EACH + NEXT]!)
      larger.add(callers[at * EACH + HIGH]!, callers[at * EACH + LOW]!, this.atMs(at))
    return larger
  }

  #join(before: number, next: number): void {
    this.#callers[before * EACH + NEXT] = next
    this.#callers[next * EACH + BEFORE] = before
  }
}
