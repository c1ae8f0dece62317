import type { Scheduler } from './scheduler.ts'
import type { Situation } from './world.ts'

/** What a buyer signed: the chain accepts it once, from any sender. */
export interface Authorisation {
  readonly key: string
  readonly payer: string
  readonly value: number
  /** In ms of the chain's time. */
  readonly validBeforeMs: number
  /** As its token says it in an event; only where a settler reads events. */
  readonly nonce?: string
  /** Nothing that another party could send: its sender's own transaction, which its wallet sends until it is mined. */
  readonly isPlain?: true
  /** Only its facilitator can send it, with the amount that it charges (x402 `upto`). */
  readonly isBound?: true
}

export interface Transaction {
  readonly hash: string
  readonly uses: readonly Authorisation[]
  /** What its payer cancels: sending it afterwards moves nothing. */
  readonly cancels?: Authorisation
  /** Of an account that numbers what it sends: it is mined in this order only, and one for each number. */
  readonly from?: { readonly account: string; readonly nonce: number }
}

/** How a node takes a transaction. `contested`: another one of its number waits already. */
export type Taken = 'yes' | 'mined' | 'nonce_used' | 'contested'

/** Where an authorisation was used. */
export interface Landed {
  readonly hash: string
  readonly block: number
  /** Log index in its block: another one when a reorganisation puts it into another block. */
  readonly event: string
  readonly payer: string
  readonly value: number
  readonly nonce: string | undefined
}

/** Where an authorisation was taken back by its payer. */
export type Cancelled = Omit<Landed, 'value'>

interface Mined {
  readonly transaction: Transaction
  readonly block: number
  /** Of the first event in its block. */
  readonly firstLog: number
  /** One of several whose gas others had used up. */
  readonly starved: string | undefined
  /** When it was mined, among credits. */
  readonly step: number
}

/** Money that a wallet got: it pays for nothing that was mined before, and failed for lack of it. */
interface Credit {
  readonly payer: string
  readonly value: number
  readonly block: number
  readonly step: number
}

/** A transaction as a node tells of it: which authorisations it moved. */
export interface Receipt {
  readonly transaction: Transaction
  readonly block: number
  readonly moved: ReadonlyMap<string, Landed>
  readonly cancelled: Cancelled | undefined
}

/** Who hears what happens to it. */
export interface ChainObservations {
  tell(...what: unknown[]): void
  see(situation: Situation): void
}

const BLOCK_MS = 2_000
const EPOCH_MS = 1_800_000_000_000

/** The state of a node as of one block. */
export interface View {
  readonly number: number
  /** The block's own time, in ms since 1970. */
  readonly timestampMs: number
  readonly landed: ReadonlyMap<string, Landed>
  readonly cancelled: ReadonlyMap<string, Cancelled>
  readonly receipts: ReadonlyMap<string, Receipt>
  /** The next number of an account, without what waits. */
  nextOf(account: string): number
  balanceOf(payer: string): number
}

/**
 * A chain with a block every two seconds and a public mempool, in which any party may take an authorisation, alone or with
 * others, and bring it in a transaction of their own; and which loses its latest blocks now and then.
 */
export class Chain {
  /** While false, no other party interferes. */
  isFaulty = true
  /** Every authorisation that was ever on its way in public. */
  readonly seen = new Map<string, Authorisation>()
  hasReorganised = false
  /** Keys that payers have sent a cancellation of, regardless of its outcome. */
  readonly takenBack = new Set<string>()
  /** Keys of everything that was sent, regardless of its outcome. */
  readonly #sent = new Set<string>()
  /** When a payment landed first, in virtual ms. */
  readonly landedAtMs = new Map<string, number>()
  readonly #scheduler: Scheduler
  readonly #credits: Credit[] = []
  #mined: Mined[] = []
  #mempool = new Map<string, Transaction>()
  #isMining = false
  #foreign = 0
  #steps = 0
  /** By block; until something is mined, or money comes. */
  readonly #views = new Map<number, View>()
  readonly #observations: ChainObservations

  constructor(scheduler: Scheduler, outcome: ChainObservations) {
    this.#scheduler = scheduler
    this.#observations = outcome
  }

  get head(): number {
    return 1_000 + Math.floor(this.#scheduler.nowMs / BLOCK_MS)
  }

  get msToNextBlock(): number {
    return BLOCK_MS - (this.#scheduler.nowMs % BLOCK_MS)
  }

  /** What it says to a process with a correct wall clock. */
  static timeOf(nowMs: number): number {
    return EPOCH_MS + nowMs
  }

  topUp(payer: string, value: number): void {
    // What wallets have in the beginning they have had for long.
    const block = this.#scheduler.nowMs === 0 ? 0 : this.head
    this.#credits.push({ payer, value, block, step: ++this.#steps })
    this.#views.clear()
  }

  send(transaction: Transaction): Taken {
    const { hash, from } = transaction
    for (const { key } of transaction.uses) this.#sent.add(key)
    for (const one of transaction.uses) if (!one.isPlain && !one.isBound) this.seen.set(one.key, one)
    if (this.#mined.some((mined) => mined.transaction.hash === hash)) return 'mined'
    if (from !== undefined) {
      if (from.nonce < this.view().nextOf(from.account)) return 'nonce_used'
      const isOther = (other: Transaction) => other.hash !== hash && isSameNumber(other, from)
      if ([...this.#mempool.values()].some(isOther)) return 'contested'
    }
    this.#mempool.set(hash, transaction)
    this.#mineSoon()
    return 'yes'
  }

  wasSent(key: string): boolean {
    return this.#sent.has(key)
  }

  /** The next number of an account after so many that are mined, with what waits for nothing else. */
  pendingOf(account: string, mined: number): number {
    let next = mined
    const waiting = [...this.#mempool.values()]
    while (waiting.some((one) => isSameNumber(one, { account, nonce: next }))) next++
    return next
  }

  /** A node forgets what waits, or some of it. */
  forget(): void {
    for (const { hash, from } of [...this.#mempool.values()]) {
      if (from === undefined || this.#scheduler.chance(0.5)) continue
      this.#mempool.delete(hash)
      this.#observations.see('a waiting transaction is forgotten')
    }
  }

  /** Whether anything of an account waits. */
  isWaiting(account: string): boolean {
    return [...this.#mempool.values()].some(({ from }) => from?.account === account)
  }

  /** Another party that has an account's key sends something with its next nonce. */
  sendAs(account: string): void {
    const nonce = this.pendingOf(account, this.view().nextOf(account))
    this.send({ hash: this.#foreignHash(), uses: [], from: { account, nonce } })
    this.#observations.see('another party signs with the key')
  }

  /** An observer sends again, or first, what it has seen. */
  bring(keys: readonly string[]): void {
    const uses = keys.flatMap((key) => this.seen.get(key) ?? [])
    if (uses.length > 0) this.send({ hash: this.#foreignHash(), uses })
  }

  /** A payer takes back what he has signed, if it has not moved by then. */
  cancel(one: Authorisation): void {
    this.takenBack.add(one.key)
    this.send({ hash: this.#foreignHash(), uses: [], cancels: one })
  }

  /** @param lag so many blocks behind */
  view(lag = 0): View {
    const number = this.head - lag
    let view = this.#views.get(number)
    if (view === undefined) this.#views.set(number, (view = this.#look(number)))
    return view
  }

  #look(number: number): View {
    const landed = new Map<string, Landed>()
    const taken = new Map<string, Cancelled>()
    const receipts = new Map<string, Receipt>()
    const money = new Map<string, number>()
    const credits = this.#credits.filter(({ block }) => block <= number)
    let credited = 0
    const creditUntil = (end: number) => {
      for (; credited < credits.length && credits[credited]!.step < end; credited++) {
        const { payer, value } = credits[credited]!
        money.set(payer, (money.get(payer) ?? 0) + value)
      }
    }
    const next = new Map<string, number>()
    for (const { transaction, block, firstLog, starved, step } of this.#mined) {
      if (block > number) continue
      creditUntil(step)
      if (transaction.from !== undefined) next.set(transaction.from.account, transaction.from.nonce + 1)
      const moved = new Map<string, Landed>()
      const timestampMs = this.timestampOf(block)
      let log = firstLog
      for (const { key, payer, value, validBeforeMs, isPlain, nonce } of transaction.uses) {
        const has = money.get(payer) ?? 0
        const isUsed = landed.has(key) || taken.has(key)
        if (key === starved || isUsed || has < value || timestampMs >= validBeforeMs) continue
        money.set(payer, has - value)
        // A plain transfer is numbered within its transaction.
        const event = isPlain ? 'transfer:0' : String(log)
        const found = { hash: transaction.hash, block, event, payer, value, nonce }
        // AuthorizationUsed, and Transfer behind it.
        log += 2
        landed.set(key, found)
        moved.set(key, found)
      }
      let cancelled: Cancelled | undefined
      const { cancels } = transaction
      if (cancels !== undefined && !landed.has(cancels.key) && !taken.has(cancels.key)) {
        const { payer, nonce, key } = cancels
        cancelled = { hash: transaction.hash, block, event: String(log), payer, nonce }
        taken.set(key, cancelled)
      }
      receipts.set(transaction.hash, { transaction, block, moved, cancelled })
    }
    creditUntil(Infinity)
    return {
      ...{ number, landed, cancelled: taken, receipts, timestampMs: this.timestampOf(number) },
      nextOf: (account) => next.get(account) ?? 0,
      balanceOf: (payer) => money.get(payer) ?? 0,
    }
  }

  /** The latest blocks are not the chain's any more. Most of what was in them is brought again, in any order. */
  reorganise(blocks: number): void {
    const from = this.head - blocks
    const gone = this.#mined.filter(({ block }) => block > from)
    if (gone.length === 0) return
    this.hasReorganised = true
    this.#observations.tell('reorganisation', blocks, gone.length)
    this.#mined = this.#mined.filter(({ block }) => block <= from)
    this.#views.clear()
    for (const { transaction } of gone) {
      if (isOfSeveral(transaction)) this.#observations.see('a transaction of several leaves the chain')
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
    this.#scheduler.at(this.msToNextBlock, null, () => {
      this.#isMining = false
      this.#mine()
      this.#mineSoon()
    })
  }

  #mine(): void {
    const scheduler = this.#scheduler
    const block = this.head
    // Some wait for another block; most do not.
    const ready = [...this.#mempool.values()].filter(() => !this.isFaulty || scheduler.chance(0.85))
    const numbered = this.#inOrder(ready)
    let taken = ready.filter(({ from }) => from === undefined)
    for (const { hash } of [...taken, ...numbered]) this.#mempool.delete(hash)
    if (scheduler.chance(0.5)) taken.reverse()
    taken = scheduler.chance(0.5) ? [...taken, ...numbered] : [...numbered, ...taken]
    if (this.isFaulty && scheduler.chance(0.15)) taken = [...this.#inFront(taken), ...taken]
    let firstLog = scheduler.between(0, 3)
    for (const transaction of taken) {
      this.#mined.push({
        transaction,
        block,
        firstLog,
        starved: this.#starved(transaction),
        step: ++this.#steps,
      })
      firstLog += 2 * transaction.uses.length + Number(transaction.cancels !== undefined)
    }
    this.#views.clear()
    const { landed, cancelled, receipts } = this.view()
    for (const transaction of taken) {
      const { uses } = transaction
      const { moved, cancelled: isCancel } = receipts.get(transaction.hash)!
      if (isCancel !== undefined) this.#observations.see('what was signed is taken back on chain')
      if (isOfSeveral(transaction)) {
        this.#observations.see('several payments in one transaction')
        const left = uses.filter(({ key }) => !moved.has(key))
        if (left.some(({ key }) => cancelled.has(key)))
          this.#observations.see('one of several taken back by its payer before')
        if (left.some(({ key }) => !landed.has(key))) this.#observations.see('one of several left out')
        if (left.some(({ key }) => landed.has(key)))
          this.#observations.see('one of several sent by another party before')
      }
      for (const { key } of uses) {
        if (!landed.has(key) || this.landedAtMs.has(key)) continue
        this.landedAtMs.set(key, scheduler.nowMs)
        this.#observations.tell('landed', key.slice(0, 6), landed.get(key)!.block)
      }
    }
  }

  /** Those of accounts that nothing is missing before; what can't be mined any more is dropped. */
  #inOrder(ready: readonly Transaction[]): Transaction[] {
    const { nextOf } = this.view()
    const next = new Map<string, number>()
    const own = ready.filter(({ from }) => from !== undefined)
    return own
      .toSorted((a, b) => a.from!.nonce - b.from!.nonce)
      .filter(({ hash, from }) => {
        const { account, nonce } = from!
        const wanted = next.get(account) ?? nextOf(account)
        if (nonce < wanted) this.#mempool.delete(hash)
        if (nonce === wanted) next.set(account, wanted + 1)
        return nonce === wanted
      })
  }

  /** What another party sends before all others: what these would move, some of it, or anything else that it has seen. */
  #inFront(taken: readonly Transaction[]): Transaction[] {
    const scheduler = this.#scheduler
    const open = taken.flatMap(({ uses }) => uses).filter((one) => !one.isPlain && !one.isBound)
    const others = [...this.seen.values()].filter(() => scheduler.chance(0.5))
    const some = scheduler.chance(0.5) ? open : open.filter(() => scheduler.chance(0.5))
    const uses = scheduler.chance(0.5) ? some : [...new Set([...some, ...others])]
    return uses.length > 0 ? [{ hash: this.#foreignHash(), uses }] : []
  }

  #starved({ uses, from }: Transaction): string | undefined {
    const isStarved = this.isFaulty && from !== undefined && uses.length > 1 && this.#scheduler.chance(0.15)
    return isStarved ? this.#scheduler.pick(uses).key : undefined
  }
}

const isOfSeveral = ({ from, uses }: Transaction): boolean => from !== undefined && uses.length > 1

const isSameNumber = ({ from }: Transaction, other: NonNullable<Transaction['from']>): boolean =>
  from?.account === other.account && from.nonce === other.nonce
