import { randomInt } from 'node:crypto'

/** A caller counts once in so long, for each link. */
const ONCE_MS = 3_600_000
/** Callers that are remembered, 36 bytes each. Beyond that the longest known is forgotten and may count again. */
const MAX_CALLERS = 131_072
/** There is room for so many at first, and for twice as many each time that it is full. */
const FIRST_CALLERS = 1_024

/** Who saw links within the hour. Each worker process remembers its own. */
export class Views {
  #table: Table
  readonly #maxCallers: number
  /** So that nobody can choose callers whose places in the table are all one. */
  readonly seed = randomInt(2 ** 32)

  /** @param maxCallers a power of two */
  constructor(maxCallers = MAX_CALLERS) {
    this.#maxCallers = maxCallers
    this.#table = new Table(Math.min(FIRST_CALLERS, maxCallers))
  }

  /**
   * Whether a caller of a link is to be counted now; remembers that he was.
   *
   * @param high the hash of both, in two halves
   */
  isNew(high: number, low: number, atMs: number): boolean {
    const table = this.#table
    const known = table.find(high, low)
    if (known !== NONE) {
      // A clock that was set back must not silence a caller for good.
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
 * A link and whoever sees it. Who was counted last is known here as well: mostly it is he who calls next, and of very many links
 * the table lies in no cache.
 */
export class SeenLink {
  readonly #views: Views
  /** Of the link's id a hash in two halves, which goes on with each caller's. */
  readonly #a: number
  readonly #b: number
  #lastHigh = 0
  #lastLow = 0
  /** Since 2020; far from every time while nobody was counted. */
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
   * Whether this caller is to be counted now; remembers that he was. Callers are known by a hash of 64 bits: two with the same one would
   * be counted as one, which hardly ever happens and costs a view.
   *
   * @param caller see {@link import('../../core/http/callerAddress.ts').callerOf}
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
    // In the hour's last second the table says it, which knows the millisecond.
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
/** Seconds are counted from 2020, so that they have room in 32 bits for as long before as after. */
const FROM_SECONDS = 1_577_836_800

const secondsOf = (atMs: number): number => Math.floor(atMs / 1_000) - FROM_SECONDS

const NONE = -1

// What is known of a caller, side by side: whoever looks at one has all of it from the same place of memory.
const [HIGH, LOW, OTHER, NEXT, BEFORE, AT_SECONDS, AT_MS] = [0, 1, 2, 3, 4, 5, 6]
const EACH = 8

/**
 * Callers by hash, in the order in which they were counted: numbers in arrays, of which a new caller makes no garbage. As strings in a
 * map, each would live just long enough to be copied to where the collector looks rarely.
 */
class Table {
  readonly size: number
  /** Of each caller his hash, the next one whose hash leads to the same place, who was counted next and before, in a ring, and when. */
  readonly #callers: Int32Array
  /** The first of those whose hash leads to the same place. */
  readonly #first: Int32Array
  #longestKnown = NONE
  /** The first place that is free; `NEXT` of it is the next one. */
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

  /** When a caller was counted. */
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

  /** There must be room. */
  add(high: number, low: number, atMs: number): void {
    const callers = this.#callers
    const at = this.#free
    this.#free = callers[at * EACH + NEXT]!
    const place = low & (this.size - 1)
    const seconds = secondsOf(atMs)
    callers[at * EACH + HIGH] = high
    callers[at * EACH + LOW] = low
    callers[at * EACH + OTHER] = this.#first[place]!
    callers[at * EACH + AT_SECONDS] = seconds
    callers[at * EACH + AT_MS] = atMs - (seconds + FROM_SECONDS) * 1_000
    this.#first[place] = at
    const last = this.#longestKnown === NONE ? at : callers[this.#longestKnown * EACH + BEFORE]!
    if (this.#longestKnown === NONE) this.#longestKnown = at
    this.#join(last, at)
    this.#join(at, this.#longestKnown)
  }

  forget(at: number): void {
    const callers = this.#callers
    const place = callers[at * EACH + LOW]! & (this.size - 1)
    const other = callers[at * EACH + OTHER]!
    if (this.#first[place] === at) this.#first[place] = other
    else {
      let before = this.#first[place]!
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

  /** One of twice the size, with the same callers. */
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
