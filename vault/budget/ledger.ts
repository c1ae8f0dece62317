const dayMs = 86_400_000
const REMEMBERED_IDS = 10_000
/** The day of a reservation whose own day is over: it is open, and counts on no day any more. */
const over = -1
/** Charges and ids in one payload of a snapshot; keeps each below the log's largest frame. */
const CHUNK = 1_000

export interface OpenReservation {
  readonly day: number
  readonly charges: readonly Charge[]
}

/** Which UTC day a time is on: days since 1970. */
export function dayOf(ms: number): number {
  return Math.floor(ms / dayMs)
}

/** When a day ends, ISO 8601. */
export function endOf(day: number): string {
  return new Date((day + 1) * dayMs).toISOString()
}

/**
 * What was spent on the latest day, and what is reserved. It is what the journal's changes make of it and nothing else:
 * {@link apply} is the one way to change it, when running and when reading the journal back.
 *
 * Bounded: one total a subject and asset of one day, the open reservations, the last 10,000 committed ids.
 */
export class BudgetLedger {
  #day = 0
  /** Committed and reserved together, by {@link keyOf}: what a limit is compared with. */
  #used = new Map<string, bigint>()
  #reserved = new Map<string, bigint>()
  readonly #open = new Map<string, OpenReservation>()
  readonly #committed = new Set<string>()

  get day(): number {
    return this.#day
  }

  used(subject: string, asset: string): bigint {
    return this.#used.get(keyOf(subject, asset)) ?? 0n
  }

  reserved(subject: string, asset: string): bigint {
    return this.#reserved.get(keyOf(subject, asset)) ?? 0n
  }

  /** Assets that a subject used today. */
  assetsOf(subject: string): string[] {
    const found: string[] = []
    for (const key of this.#used.keys()) {
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
    if (reservation.day !== this.#day) return
    this.#add(this.#reserved, reservation.charges, -1n)
    if (change.t === 'release') this.#add(this.#used, reservation.charges, -1n)
  }

  /** The changes that make this ledger out of an empty one. */
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
    ]
  }

  clear(): void {
    this.#day = 0
    this.#used.clear()
    this.#reserved.clear()
    this.#open.clear()
    this.#committed.clear()
  }

  /** A new day: nothing is used. What is still open was counted on its own day. */
  #enter(day: number): void {
    for (const [id, open] of this.#open) this.#open.set(id, { ...open, day: over })
    this.#day = day
    this.#used = new Map()
    this.#reserved = new Map()
  }

  /** Reservations of the latest day move along. */
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

/** Both parts are free text; JSON keeps them apart whatever they hold. */
function keyOf(subject: string, asset: string): string {
  return JSON.stringify([subject, asset])
}

function chunksOf<T>(items: readonly T[]): T[][] {
  const chunks: T[][] = []
  for (let at = 0; at < items.length; at += CHUNK) chunks.push(items.slice(at, at + CHUNK))
  return chunks
}

/** One charge: subject, asset, amount in the asset's smallest unit as a decimal. */
export type Charge = readonly [subject: string, asset: string, amount: string]

/** One line of the budgets' journal. */
export type BudgetChange =
  /** The latest day seen (days since 1970, UTC); begins every snapshot. */
  | { readonly t: 'day'; readonly day: number }
  /** Another day becomes the latest, earlier or later, and keeps what was used. */
  | { readonly t: 'move'; readonly day: number }
  /** A subject's committed total of the day. */
  | { readonly t: 'total'; readonly charges: readonly Charge[] }
  | { readonly t: 'reserve'; readonly id: string; readonly day: number; readonly charges: readonly Charge[] }
  | { readonly t: 'commit'; readonly id: string }
  | { readonly t: 'release'; readonly id: string }
  /** Ids committed lately, oldest first. */
  | { readonly t: 'decided'; readonly ids: readonly string[] }

export function encodeChange(change: BudgetChange): Buffer {
  return Buffer.from(JSON.stringify(change), 'utf8')
}

export function decodeChange(payload: Buffer): BudgetChange {
  return JSON.parse(payload.toString('utf8')) as BudgetChange
}
