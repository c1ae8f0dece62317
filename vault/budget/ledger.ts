const DAY_MS = 86_400_000
const REMEMBERED_IDS = 10_000
/** Maximum payments of one agent of which part may be given back. Without the limit, an agent could fill the memory. */
const MAX_PARTIAL_PER_AGENT = 1_000
/** The day of an open reservation whose own day has passed. It counts on no day. */
const over = -1
/** Maximum charges and ids per snapshot row, so that each row stays small. */
const CHUNK = 1_000

export interface OpenReservation {
  readonly day: number
  readonly charges: readonly Charge[]
}

/** A payment that was counted today with the most that it can cost. */
interface PartialPayment {
  readonly charges: readonly Charge[]
  readonly claim: unknown
}

/** The UTC day of a time: days since 1970. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS)
}

/** When a day ends, ISO 8601. */
export function endOf(day: number): string {
  return new Date((day + 1) * DAY_MS).toISOString()
}

/**
 * Money spent on the latest day, and open reservations. Only {@link apply} changes it, at run time and when the journal is
 * read, so the journal's changes always rebuild it.
 *
 * Its size is limited: one total per subject and asset for one day, the open reservations, and the last 10,000 committed ids.
 */
export class BudgetLedger {
  #day = 0
  /** Sum of committed and reserved amounts, by {@link keyOf}. The limits apply to this sum. */
  #used = new Map<string, bigint>()
  #reserved = new Map<string, bigint>()
  readonly #open = new Map<string, OpenReservation>()
  readonly #committed = new Set<string>()
  /** Payments of the latest day of which part may be given back, oldest first. Those of an earlier day give nothing back. */
  readonly #partial = new Map<string, PartialPayment>()
  /** What was given back on the latest day, by {@link keyOf}. */
  #givenBack = new Map<string, bigint>()

  get day(): number {
    return this.#day
  }

  used(subject: string, asset: string): bigint {
    return this.#used.get(keyOf(subject, asset)) ?? 0n
  }

  reserved(subject: string, asset: string): bigint {
    return this.#reserved.get(keyOf(subject, asset)) ?? 0n
  }

  givenBack(subject: string, asset: string): bigint {
    return this.#givenBack.get(keyOf(subject, asset)) ?? 0n
  }

  /** Committed payments of the latest day of which part may be given back, oldest first. */
  partial(): { readonly id: string; readonly claim: unknown }[] {
    return [...this.#partial].flatMap(([id, { claim }]) => (this.isOpen(id) ? [] : [{ id, claim }]))
  }

  isPartial(id: string): boolean {
    return this.#partial.has(id) && !this.isOpen(id)
  }

  /** Assets that a subject used today. */
  assetsOf(subject: string): string[] {
    const found: string[] = []
    for (const key of new Set([...this.#used.keys(), ...this.#givenBack.keys()])) {
      const [owner, asset] = JSON.parse(key) as [string, string]
      if (owner === subject) found.push(asset)
    }
    return found.sort()
  }

  isOpen(id: string): boolean {
    return this.#open.has(id)
  }

  isCommitted(id: string): boolean {
    return this.#committed.has(id)
  }

  openIds(): string[] {
    return [...this.#open.keys()]
  }

  apply(change: BudgetChange): void {
    if (change.t === 'day') return this.#enter(change.day)
    if (change.t === 'move') return this.#moveTo(change.day)
    if (change.t === 'total') return this.#add(this.#used, change.charges, 1n)
    if (change.t === 'returned') return this.#add(this.#givenBack, change.charges, 1n)
    if (change.t === 'partial') return this.#note(change)
    if (change.t === 'giveBack') return this.#giveBack(change.id, BigInt(change.amount))
    if (change.t === 'decided') {
      for (const id of change.ids) this.#remember(id)
      return
    }
    if (change.t === 'reserve') {
      if (change.day > this.#day) this.#enter(change.day)
      this.#open.set(change.id, { day: change.day, charges: change.charges })
      if (change.day !== this.#day) return
      this.#add(this.#used, change.charges, 1n)
      this.#add(this.#reserved, change.charges, 1n)
      return
    }
    const reservation = this.#open.get(change.id)
    if (reservation === undefined) return
    this.#open.delete(change.id)
    if (change.t === 'commit') this.#remember(change.id)
    else this.#partial.delete(change.id)
    if (reservation.day !== this.#day) return
    this.#add(this.#reserved, reservation.charges, -1n)
    if (change.t === 'release') this.#add(this.#used, reservation.charges, -1n)
  }

  /** The changes that rebuild this ledger from an empty one. */
  snapshot(): BudgetChange[] {
    const committed = [...this.#used].flatMap(([key, used]): Charge[] => {
      const [subject, asset] = JSON.parse(key) as [string, string]
      const amount = used - (this.#reserved.get(key) ?? 0n)
      return amount > 0n ? [[subject, asset, String(amount)]] : []
    })
    return [
      { t: 'day', day: this.#day },
      ...chunksOf(committed).map((charges) => ({ t: 'total', charges }) as const),
      ...chunksOf([...this.#committed]).map((ids) => ({ t: 'decided', ids }) as const),
      ...[...this.#open].map(([id, { day, charges }]) => ({ t: 'reserve', id, day, charges }) as const),
      ...[...this.#partial].map(
        ([id, { charges, claim }]) => ({ t: 'partial', id, charges, claim }) as const,
      ),
      ...chunksOf(chargesIn(this.#givenBack)).map((charges) => ({ t: 'returned', charges }) as const),
    ]
  }

  clear(): void {
    this.#day = 0
    this.#used.clear()
    this.#reserved.clear()
    this.#open.clear()
    this.#committed.clear()
    this.#partial.clear()
    this.#givenBack.clear()
  }

  /** Starts a new day, on which nothing is used yet. Open reservations were counted on their own day. */
  #enter(day: number): void {
    for (const [id, open] of this.#open) this.#open.set(id, { ...open, day: over })
    this.#day = day
    this.#used = new Map()
    this.#reserved = new Map()
    this.#partial.clear()
    this.#givenBack = new Map()
  }

  /** @param charges absent if the reservation is open, which has them */
  #note({ id, claim, charges = this.#chargesOf(id) }: Extract<BudgetChange, { t: 'partial' }>): void {
    if (charges === undefined) return
    this.#partial.set(id, { charges, claim })
    if (this.#partial.size <= MAX_PARTIAL_PER_AGENT) return
    const agent = agentOf(charges)
    const own = [...this.#partial].filter(([, one]) => agentOf(one.charges) === agent)
    if (own.length > MAX_PARTIAL_PER_AGENT) this.#partial.delete(own[0]![0])
  }

  /** The charges of an open reservation that counts on the latest day. */
  #chargesOf(id: string): readonly Charge[] | undefined {
    const open = this.#open.get(id)
    return open?.day === this.#day ? open.charges : undefined
  }

  /** Gives back at most what was counted, once. */
  #giveBack(id: string, amount: bigint): void {
    const charges = this.isPartial(id) ? this.#partial.get(id)!.charges : []
    this.#partial.delete(id)
    const returned = charges.flatMap(([subject, asset, counted]): Charge[] => {
      const least = amount < BigInt(counted) ? amount : BigInt(counted)
      return least > 0n ? [[subject, asset, String(least)]] : []
    })
    this.#add(this.#used, returned, -1n)
    this.#add(this.#givenBack, returned, 1n)
  }

  /** Moves the latest day's totals and reservations to another day. */
  #moveTo(day: number): void {
    for (const [id, open] of this.#open) {
      if (open.day === this.#day) this.#open.set(id, { ...open, day })
    }
    this.#day = day
  }

  #add(totals: Map<string, bigint>, charges: readonly Charge[], sign: bigint): void {
    for (const [subject, asset, amount] of charges) {
      const key = keyOf(subject, asset)
      const total = (totals.get(key) ?? 0n) + sign * BigInt(amount)
      if (total === 0n) totals.delete(key)
      else totals.set(key, total)
    }
  }

  #remember(id: string): void {
    this.#committed.add(id)
    if (this.#committed.size > REMEMBERED_IDS) this.#committed.delete(this.#committed.values().next().value!)
  }
}

/** The key is JSON, because both parts are free text and must not run into each other. */
function keyOf(subject: string, asset: string): string {
  return JSON.stringify([subject, asset])
}

/** The agent is the first subject that a request charges. */
const agentOf = ([first]: readonly Charge[]): string | undefined => first?.[0]

const chargesIn = (totals: ReadonlyMap<string, bigint>): Charge[] =>
  [...totals].map(([key, amount]) => {
    const [subject, asset] = JSON.parse(key) as [string, string]
    return [subject, asset, String(amount)]
  })

function chunksOf<T>(items: readonly T[]): T[][] {
  const chunks: T[][] = []
  for (let at = 0; at < items.length; at += CHUNK) chunks.push(items.slice(at, at + CHUNK))
  return chunks
}

/** One charge, with the amount as a decimal number of the asset's smallest units. */
export type Charge = readonly [subject: string, asset: string, amount: string]

/** One change in the budget journal. */
export type BudgetChange =
  /** The latest day (days since 1970, UTC). Every snapshot begins with it. */
  | { readonly t: 'day'; readonly day: number }
  /** Makes another day, earlier or later, the latest day, and moves the amounts used to it. */
  | { readonly t: 'move'; readonly day: number }
  /** A subject's committed total of the day. */
  | { readonly t: 'total'; readonly charges: readonly Charge[] }
  | { readonly t: 'reserve'; readonly id: string; readonly day: number; readonly charges: readonly Charge[] }
  | { readonly t: 'commit'; readonly id: string }
  | { readonly t: 'release'; readonly id: string }
  /** A payment that may cost less than it counts. `charges` are absent while its reservation is open. */
  | {
      readonly t: 'partial'
      readonly id: string
      readonly claim: unknown
      readonly charges?: readonly Charge[]
    }
  /** Gives back part of such a payment. Nothing more of it is given back. */
  | { readonly t: 'giveBack'; readonly id: string; readonly amount: string }
  /** What was given back on the latest day. */
  | { readonly t: 'returned'; readonly charges: readonly Charge[] }
  /** Recently committed ids, oldest first. */
  | { readonly t: 'decided'; readonly ids: readonly string[] }

export function encodeChange(change: BudgetChange): Buffer {
  return Buffer.from(JSON.stringify(change), 'utf8')
}

export function decodeChange(payload: Buffer): BudgetChange {
  return JSON.parse(payload.toString('utf8')) as BudgetChange
}
