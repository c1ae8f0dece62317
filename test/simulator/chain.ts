import type { Scheduler } from './scheduler.ts'

/** What a buyer signed: whoever brings it, the chain takes it once. */
export interface Authorisation {
  readonly key: string
  readonly payer: string
  readonly value: number
  /** In ms of the chain's time. */
  readonly validBeforeMs: number
  /** Nothing that somebody else could bring: its sender's own transaction, which its wallet sends until it is mined. */
  readonly isPlain?: true
}

export interface Transaction {
  readonly hash: string
  readonly uses: readonly Authorisation[]
}

/** Where an authorisation was used. */
export interface Landed {
  readonly hash: string
  readonly block: number
  /** Log index in its block: another one when a reorganisation puts it into another block. */
  readonly event: string
  readonly payer: string
  readonly value: number
}

interface Mined {
  readonly transaction: Transaction
  readonly block: number
  /** Of the first event in its block. */
  readonly firstLog: number
}

/** A transaction as a node tells of it: which authorisations it moved. */
export interface Receipt {
  readonly block: number
  readonly moved: ReadonlyMap<string, Landed>
}

const BLOCK_MS = 2_000
const EPOCH_MS = 1_800_000_000_000

/** What a node knows as of one block. */
export interface View {
  readonly number: number
  /** The block's own time, in ms since 1970. */
  readonly timestampMs: number
  readonly landed: ReadonlyMap<string, Landed>
  readonly receipts: ReadonlyMap<string, Receipt>
  balanceOf(payer: string): number
}

/**
 * A chain with a block every two seconds and a public mempool, in which anybody may take an authorisation, alone or with
 * others, and bring it in a transaction of their own; and which loses its latest blocks now and then.
 */
export class Chain {
  /** While false, nobody meddles. */
  isFaulty = true
  /** Every authorisation that was ever on its way in public. */
  readonly seen = new Map<string, Authorisation>()
  hasReorganised = false
  /** When a payment landed first, in virtual ms. */
  readonly landedAtMs = new Map<string, number>()
  readonly #scheduler: Scheduler
  readonly #money = new Map<string, number>()
  #mined: Mined[] = []
  #mempool = new Map<string, Transaction>()
  #isMining = false
  #foreign = 0
  readonly #tell: (...what: unknown[]) => void

  constructor(scheduler: Scheduler, tell: (...what: unknown[]) => void) {
    this.#scheduler = scheduler
    this.#tell = tell
  }

  get head(): number {
    return 1_000 + Math.floor(this.#scheduler.nowMs / BLOCK_MS)
  }

  /** What it says to anybody who looks at a wall clock that is right. */
  static timeOf(nowMs: number): number {
    return EPOCH_MS + nowMs
  }

  topUp(payer: string, value: number): void {
    this.#money.set(payer, (this.#money.get(payer) ?? 0) + value)
  }

  /** @returns false when a node can say that it will never land */
  send(transaction: Transaction): boolean {
    const { hash } = transaction
    for (const one of transaction.uses) if (!one.isPlain) this.seen.set(one.key, one)
    if (this.#mined.some((mined) => mined.transaction.hash === hash)) return false
    this.#mempool.set(hash, transaction)
    this.#mineSoon()
    return true
  }

  /** Somebody sends again, or first, what they have seen. */
  bring(keys: readonly string[]): void {
    const uses = keys.flatMap((key) => this.seen.get(key) ?? [])
    if (uses.length > 0) this.send({ hash: this.#foreignHash(), uses })
  }

  /** @param lag so many blocks behind */
  view(lag = 0): View {
    const number = this.head - lag
    const landed = new Map<string, Landed>()
    const receipts = new Map<string, Receipt>()
    const money = new Map(this.#money)
    for (const { transaction, block, firstLog } of this.#mined) {
      if (block > number) continue
      const moved = new Map<string, Landed>()
      const timestampMs = this.timestampOf(block)
      let log = firstLog
      for (const { key, payer, value, validBeforeMs, isPlain } of transaction.uses) {
        const has = money.get(payer) ?? 0
        if (landed.has(key) || has < value || timestampMs >= validBeforeMs) continue
        money.set(payer, has - value)
        // A plain transfer is numbered within its transaction.
        const event = isPlain ? 'transfer:0' : String(log)
        const found = { hash: transaction.hash, block, event, payer, value }
        // AuthorizationUsed, and Transfer behind it.
        log += 2
        landed.set(key, found)
        moved.set(key, found)
      }
      receipts.set(transaction.hash, { block, moved })
    }
    return {
      ...{ number, landed, receipts, timestampMs: this.timestampOf(number) },
      balanceOf: (payer) => money.get(payer) ?? 0,
    }
  }

  /** The latest blocks are not the chain's any more. Most of what was in them is brought again, in whatever order. */
  reorganise(blocks: number): void {
    const from = this.head - blocks
    const gone = this.#mined.filter(({ block }) => block > from)
    if (gone.length === 0) return
    this.hasReorganised = true
    this.#tell('reorganisation', blocks, gone.length)
    this.#mined = this.#mined.filter(({ block }) => block <= from)
    for (const { transaction } of gone) {
      const isPlain = transaction.uses.some((one) => one.isPlain)
      if (isPlain || this.#scheduler.chance(0.7)) this.#mempool.set(transaction.hash, transaction)
      else if (this.#scheduler.chance(0.3)) this.bring(transaction.uses.map(({ key }) => key))
    }
    this.#mineSoon()
  }

  timestampOf(block: number): number {
    return EPOCH_MS + (block - 1_000) * BLOCK_MS
  }

  #foreignHash(): string {
    return `0x${'f'.repeat(8)}${(this.#scheduler.seed * 1_000 + this.#foreign++).toString(16).padStart(56, '0')}`
  }

  #mineSoon(): void {
    if (this.#isMining || this.#mempool.size === 0) return
    this.#isMining = true
    const leftMs = BLOCK_MS - (this.#scheduler.nowMs % BLOCK_MS)
    this.#scheduler.at(leftMs, null, () => {
      this.#isMining = false
      this.#mine()
      this.#mineSoon()
    })
  }

  #mine(): void {
    const scheduler = this.#scheduler
    const block = this.head
    // Some wait for another block; most do not.
    let taken = [...this.#mempool.values()].filter(() => !this.isFaulty || scheduler.chance(0.85))
    for (const { hash } of taken) this.#mempool.delete(hash)
    if (this.isFaulty && scheduler.chance(0.15)) {
      const open = taken.flatMap(({ uses }) => uses).filter((one) => !one.isPlain)
      const others = [...this.seen.values()].filter(() => scheduler.chance(0.5))
      const uses = scheduler.chance(0.5) ? open : [...new Set([...open, ...others])]
      if (uses.length > 0) taken = [{ hash: this.#foreignHash(), uses }, ...taken]
    }
    if (scheduler.chance(0.5)) taken.reverse()
    let firstLog = scheduler.between(0, 3)
    for (const transaction of taken) {
      this.#mined.push({ transaction, block, firstLog })
      firstLog += 2 * transaction.uses.length
    }
    const { landed } = this.view()
    for (const { uses } of taken) {
      for (const { key } of uses) {
        if (!landed.has(key) || this.landedAtMs.has(key)) continue
        this.landedAtMs.set(key, scheduler.nowMs)
        this.#tell('landed', key.slice(0, 6), landed.get(key)!.block)
      }
    }
  }
}
