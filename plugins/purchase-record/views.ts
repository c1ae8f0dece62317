import { randomInt } from 'node:crypto'

/** A caller counts once in so long, for each link. */
const ONCE_MS = 3_600_000
/** Callers that are remembered, 32 bytes each. Beyond that the longest known is forgotten and may count again. */
const MAX_CALLERS = 131_072
/** There is room for so many at first, and for twice as many each time that it is full. */
const FIRST_CALLERS = 1_024

/** Who saw a link within the hour. Each worker process remembers its own. */
export interface Views {
  /**
   * Whether this caller is to be counted now; remembers that he was.
   *
   * @param caller see {@link import('../../core/http/callerOf.ts').callerOf}
   */
  isNew(linkId: string, caller: string, atMs: number): boolean
}

/** @param maxCallers a power of two */
export function createViews(maxCallers = MAX_CALLERS): Views {
  let table = new Table(Math.min(FIRST_CALLERS, maxCallers))
  const seed = randomInt(2 ** 32)

  return {
    isNew(linkId, caller, atMs) {
      hash(seed, linkId, caller)
      const known = table.find(high, low)
      if (known !== NONE) {
        // A clock that was set back must not silence a caller for good.
        if (Math.abs(atMs - table.atMs[known]!) < ONCE_MS) return false
        table.forget(known)
      } else if (table.isFull) {
        if (table.size < maxCallers) table = table.doubled()
        else table.forgetLongestKnown()
      }
      table.add(high, low, atMs)
      return true
    },
  }
}

let high = 0
let low = 0

/**
 * 64 bits, in `high` and `low`: two callers with the same ones would be counted as one, which hardly ever happens and costs a view. The
 * seed is there so that nobody can choose callers whose places in the table are all one.
 */
function hash(seed: number, linkId: string, caller: string): void {
  let a = seed
  let b = ~seed
  for (let i = 0; i < linkId.length; i++) {
    const c = linkId.charCodeAt(i)
    a = Math.imul(a ^ c, 0x01000193)
    b = Math.imul(b ^ c, 0x85ebca6b)
    b ^= b >>> 15
  }
  for (let i = 0; i < caller.length; i++) {
    const c = caller.charCodeAt(i) + 0x100
    a = Math.imul(a ^ c, 0x01000193)
    b = Math.imul(b ^ c, 0x85ebca6b)
    b ^= b >>> 15
  }
  high = Math.imul(a ^ (a >>> 16), 0x45d9f3b)
  low = Math.imul(b ^ (b >>> 13), 0xc2b2ae35)
}

const NONE = -1

/**
 * Callers by hash, in the order in which they were counted: numbers in arrays, of which a new caller makes no garbage. As strings in a
 * map, each would live just long enough to be copied to where the collector looks rarely.
 */
class Table {
  readonly size: number
  readonly atMs: Float64Array
  readonly #high: Int32Array
  readonly #low: Int32Array
  /** Of each caller who was counted next and before, in a ring; of those that are free the next free one. */
  readonly #next: Int32Array
  readonly #before: Int32Array
  /** The first of those whose hash leads to the same place, and of each caller the next one. */
  readonly #first: Int32Array
  readonly #other: Int32Array
  #longestKnown = NONE
  #free = 0

  constructor(size: number) {
    this.size = size
    this.atMs = new Float64Array(size)
    ;[this.#high, this.#low, this.#next, this.#before, this.#first, this.#other] = Array.from(
      { length: 6 },
      () => new Int32Array(size).fill(NONE),
    ) as [Int32Array, Int32Array, Int32Array, Int32Array, Int32Array, Int32Array]
    for (let i = 0; i < size - 1; i++) this.#next[i] = i + 1
  }

  get isFull(): boolean {
    return this.#free === NONE
  }

  find(high: number, low: number): number {
    let at = this.#first[low & (this.size - 1)]!
    while (at !== NONE && (this.#low[at] !== low || this.#high[at] !== high)) at = this.#other[at]!
    return at
  }

  /** There must be room. */
  add(high: number, low: number, atMs: number): void {
    const at = this.#free
    this.#free = this.#next[at]!
    this.#high[at] = high
    this.#low[at] = low
    this.atMs[at] = atMs
    const place = low & (this.size - 1)
    this.#other[at] = this.#first[place]!
    this.#first[place] = at
    const last = this.#longestKnown === NONE ? at : this.#before[this.#longestKnown]!
    if (this.#longestKnown === NONE) this.#longestKnown = at
    this.#join(last, at)
    this.#join(at, this.#longestKnown)
  }

  forget(at: number): void {
    const place = this.#low[at]! & (this.size - 1)
    if (this.#first[place] === at) this.#first[place] = this.#other[at]!
    else {
      let before = this.#first[place]!
      while (this.#other[before] !== at) before = this.#other[before]!
      this.#other[before] = this.#other[at]!
    }
    const next = this.#next[at]!
    this.#join(this.#before[at]!, next)
    if (this.#longestKnown === at) this.#longestKnown = next === at ? NONE : next
    this.#next[at] = this.#free
    this.#free = at
  }

  forgetLongestKnown(): void {
    this.forget(this.#longestKnown)
  }

  /** One of twice the size, with the same callers. */
  doubled(): Table {
    const larger = new Table(this.size * 2)
    for (let left = this.size, at = this.#longestKnown; left > 0; left--, at = this.#next[at]!)
      larger.add(this.#high[at]!, this.#low[at]!, this.atMs[at]!)
    return larger
  }

  #join(before: number, next: number): void {
    this.#next[before] = next
    this.#before[next] = before
  }
}
