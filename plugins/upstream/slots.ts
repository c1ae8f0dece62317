import type { Transform } from 'node:stream'
import type { Egress, UpstreamPool } from '../../core/ports/egress.ts'

/** How long a call has its slot before it must give way to a paid call or to a call of a store with fewer slots, in ms. */
export const PRESSED_MS = 5_000
/** Pause between two checks for calls that must give way, in ms. Most calls end by themselves within that time. */
const CHECK_MS = 1_000

/** A call that has a slot and can be made to release the slot. */
export interface Holder {
  /** Whether the caller reads or sends so slowly that its call gives way to a waiting call. @param nowMs by `performance.now()` */
  isBehind(nowMs: number): boolean
  /** Aborts the call. A charged call continues without its reader as long as its response can be stored. */
  preempt(): void
}

/** The calls of one store at one origin. */
export class StoreCalls {
  /** Number of links with this origin. */
  links = 0
  /** Calls in flight, which are waiting calls, calls with a slot and open tunnels. */
  open = 0
  /** Slots that these calls have. */
  held = 0
  readonly waitingPaid = new Set<Slot>()
  readonly waitingFree = new Set<Slot>()
  readonly storeId: string

  constructor(storeId: string) {
    this.storeId = storeId
  }

  get nextWaiting(): Slot | undefined {
    for (const slot of this.waitingPaid) return slot
    for (const slot of this.waitingFree) return slot
    return undefined
  }
}

/** The slot of one call, from its request until {@link release}. The call may have to wait for the slot. */
export class Slot {
  state: 'waiting' | 'held' | 'tunnel' | 'over' = 'waiting'
  /** When the call got the slot, by `performance.now()`. */
  sinceMs = 0
  /** The slot's index among the slots in use. */
  index = -1
  /** Called when a waiting call gets its slot. */
  granted: (() => void) | null = null
  /**
   * Aborts the call to free the slot. Null while the slot must not be taken away, because the call is being verified or charged.
   */
  holder: Holder | null = null
  isCharged = false
  /** When the call was made to give way, by `performance.now()`. 0 if it was not. */
  dismissedMs = 0
  #isConnecting = false
  #isLeft = false
  readonly store: StoreCalls
  readonly isPaid: boolean
  /** Minimum time for which a free call has the slot while free calls of the same store wait, in ms. */
  readonly freeTurnMs: number
  readonly #slots: Slots

  constructor(slots: Slots, store: StoreCalls, isPaid: boolean, freeTurnMs: number) {
    this.#slots = slots
    this.store = store
    this.isPaid = isPaid
    this.freeTurnMs = freeTurnMs
  }

  /**
   * Notes that a connection is being opened. The slot stays in use until the connection is open or has failed, even if the call has
   * ended. Otherwise callers who disconnect at once could make the gateway open any number of connections.
   */
  connects(): void {
    this.#isConnecting = true
  }

  /** Notes that the connection is open or has failed. */
  connected(): void {
    this.#isConnecting = false
    if (this.#isLeft) this.release()
  }

  /** Releases the slot, or stops waiting for it. A second call does nothing. */
  release(): void {
    this.#isLeft = true
    if (this.#isConnecting) this.holder = null
    else this.#slots.release(this)
  }

  /**
   * Notes that the call has become a tunnel. The tunnel still counts as a call of its store, but its connection no longer belongs
   * to the pool.
   */
  becomeTunnel(): void {
    this.#slots.becomeTunnel(this)
  }
}

/**
 * Decides which calls use the connections to one origin. Each connection has a slot. All stores with the origin share the slots.
 *
 * - One store may use all slots. If several stores wait, the store with the fewest slots is next, and its paid calls come before
 *   its free calls.
 * - While a call waits, another call gives way to it. The first candidate is a call whose caller is too slow. The next is a call
 *   that has had its slot for long enough, of the store with the most slots. No call gives way to a store that already has more
 *   slots, and no charged call gives way.
 * - A paid call of a store with less than a sixteenth of the slots never waits, because it gets an additional slot. Otherwise calls
 *   that cannot give way, such as endless paid streams, could keep another store from selling.
 */
export class Slots {
  /** Number of slots, which equals the number of connections. */
  total = 1
  /** Calls in flight at the origin. */
  open = 0
  held = 0
  /**
   * Slots in use, in no order. It is an array, because V8 copies a Set as calls come and go, and the old copies would keep finished
   * calls in memory until V8 collects its whole heap.
   */
  readonly #holding: Slot[] = []
  /** Stores with waiting calls. */
  readonly #waiting = new Set<StoreCalls>()
  #timer: NodeJS.Timeout | undefined
  readonly #ended: (store: StoreCalls) => void

  /** @param ended called after a call has ended */
  constructor(ended: (store: StoreCalls) => void) {
    this.#ended = ended
  }

  /** Begins a call, which gets its slot at once or waits for it. */
  begin(store: StoreCalls, isPaid: boolean, freeTurnMs: number): Slot {
    const slot = new Slot(this, store, isPaid, freeTurnMs)
    this.open++
    store.open++
    if (this.#hasRoomFor(store, isPaid)) this.#hold(slot)
    else this.#wait(slot)
    return slot
  }

  release(slot: Slot): void {
    const { state, store } = slot
    if (state === 'over') return
    if (state === 'waiting') this.#leaveQueue(slot)
    if (state === 'held') this.#returnSlot(slot)
    slot.state = 'over'
    slot.holder = slot.granted = null
    this.open--
    store.open--
    if (state === 'held') this.#grant()
    this.#ended(store)
  }

  becomeTunnel(slot: Slot): void {
    if (slot.state !== 'held') return
    this.#returnSlot(slot)
    slot.state = 'tunnel'
    slot.holder = null
    this.#grant()
  }

  /** Makes calls give way to waiting calls. @param nowMs by `performance.now()` */
  makeRoom(nowMs: number): void {
    // A call that was made to give way a moment ago may not have released its slot yet.
    let coming = 0
    for (const { dismissedMs } of this.#holding)
      if (dismissedMs > 0 && nowMs - dismissedMs < 2 * CHECK_MS) coming++
    const stores = [...this.#waiting].sort((a, b) => a.held - b.held)
    const oldestFirst = this.#holding.toSorted((a, b) => a.sinceMs - b.sinceMs)
    for (const store of stores) {
      let { held } = store
      for (const slot of [...store.waitingPaid, ...store.waitingFree]) {
        if (slot.state !== 'waiting') continue
        if (coming === 0) {
          const preempted = slotToPreempt(oldestFirst, slot, held, nowMs)
          // No call gives way to this call, and so none to later calls of the same store, which come after it.
          if (preempted === undefined) break
          preempted.dismissedMs = nowMs
          preempted.holder!.preempt()
        } else coming--
        held++
      }
    }
  }

  #hasRoomFor(store: StoreCalls, isPaid: boolean): boolean {
    return this.held < this.total || (isPaid && store.held < Math.max(1, this.total >> 4))
  }

  #hold(slot: Slot): void {
    slot.state = 'held'
    slot.sinceMs = performance.now()
    this.held++
    slot.store.held++
    slot.index = this.#holding.push(slot) - 1
  }

  #returnSlot(slot: Slot): void {
    this.held--
    slot.store.held--
    const last = this.#holding.pop()!
    if (last === slot) return
    this.#holding[slot.index] = last
    last.index = slot.index
  }

  #wait(slot: Slot): void {
    const { store, isPaid } = slot
    ;(isPaid ? store.waitingPaid : store.waitingFree).add(slot)
    this.#waiting.add(store)
    this.#timer ??= setInterval(() => this.makeRoom(performance.now()), CHECK_MS).unref()
  }

  #leaveQueue(slot: Slot): void {
    const { store } = slot
    store.waitingPaid.delete(slot)
    store.waitingFree.delete(slot)
    if (store.waitingPaid.size + store.waitingFree.size > 0) return
    this.#waiting.delete(store)
    if (this.#waiting.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Gives free slots to waiting calls. */
  #grant(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#leaveQueue(next)
      this.#hold(next)
      next.granted?.()
    }
  }

  #next(): Slot | undefined {
    let next: Slot | undefined
    for (const store of this.#waiting) {
      if (next !== undefined && next.store.held <= store.held) continue
      const slot = store.nextWaiting!
      if (this.#hasRoomFor(store, slot.isPaid)) next = slot
    }
    return next
  }
}

/**
 * The call that must give way to a waiting call. @param held slots of the waiting store, including slots that are being freed for
 * it
 */
function slotToPreempt(
  holding: readonly Slot[],
  waiting: Slot,
  held: number,
  nowMs: number,
): Slot | undefined {
  let longest: Slot | undefined
  for (const slot of holding) {
    const { store, holder } = slot
    if (holder === null || slot.dismissedMs > 0) continue
    const isNeighbour = store !== waiting.store
    if (isNeighbour && store.held <= held) continue
    if (holder.isBehind(nowMs)) return slot
    if (slot.isCharged || (longest !== undefined && longest.store.held >= store.held)) continue
    const isPressed = (waiting.isPaid && !slot.isPaid) || (isNeighbour && store.held > held + 1)
    if (!isPressed && slot.isPaid) continue
    if (nowMs - slot.sinceMs >= (isPressed ? PRESSED_MS : slot.freeTurnMs)) longest = slot
  }
  return longest
}

/** The connections to one origin. All links with that origin share them. */
export class Origin {
  #links = 0
  readonly #slots = new Slots((store) => this.#releaseUnused(store))
  readonly #stores = new Map<string, StoreCalls>()
  #pool: UpstreamPool | null = null
  readonly #name: string
  readonly #egress: Pick<Egress, 'pool'>
  readonly #forget: () => void

  constructor(name: string, egress: Pick<Egress, 'pool'>, forget: () => void) {
    this.#name = name
    this.#egress = egress
    this.#forget = forget
  }

  /** @returns the calls of the store at this origin @throws `VALIDATION_ERROR` for an address to which connections are forbidden */
  link(storeId: string): StoreCalls {
    this.#acquire()
    let store = this.#stores.get(storeId)
    if (store === undefined) this.#stores.set(storeId, (store = new StoreCalls(storeId)))
    store.links++
    this.#links++
    return store
  }

  unlink(store: StoreCalls): void {
    store.links--
    this.#links--
    this.#releaseUnused(store)
  }

  /** Begins a call. If its link is dropped meanwhile, the call still gets a connection. */
  begin(store: StoreCalls, isPaid: boolean, freeTurnMs: number): Slot {
    this.#acquire()
    return this.#slots.begin(store, isPaid, freeTurnMs)
  }

  /** The pool. It is open from {@link begin} until the slot is released. */
  get pool(): UpstreamPool {
    return this.#pool!
  }

  #acquire(): void {
    if (this.#pool !== null) return
    this.#pool = this.#egress.pool(this.#name)
    this.#slots.total = this.#pool.connections
  }

  #releaseUnused(store: StoreCalls): void {
    if (store.links === 0 && store.open === 0 && this.#stores.get(store.storeId) === store) {
      this.#stores.delete(store.storeId)
    }
    if (this.#links > 0 || this.#slots.open > 0) return
    this.#pool?.release()
    this.#pool = null
    this.#forget()
  }
}

const all = new WeakMap<Pick<Egress, 'pool'>, Origins>()

/** The origins of one egress. All generations share them, so calls and tunnels of a retiring generation count too. */
export function originsOf(egress: Pick<Egress, 'pool'>): Origins {
  const known = all.get(egress) ?? new Origins(egress)
  all.set(egress, known)
  return known
}

/** The origins of links by name. An origin is dropped when no link and no call uses it. */
export class Origins {
  readonly #byName = new Map<string, Origin>()
  readonly #egress: Pick<Egress, 'pool'>

  constructor(egress: Pick<Egress, 'pool'>) {
    this.#egress = egress
  }

  /** @throws `VALIDATION_ERROR` for an address to which connections are forbidden */
  link(name: string, storeId: string): { readonly origin: Origin; readonly calls: StoreCalls } {
    const known = this.#byName.get(name)
    const origin = known ?? new Origin(name, this.#egress, () => this.#forget(name, origin))
    const calls = origin.link(storeId)
    if (known === undefined) this.#byName.set(name, origin)
    return { origin, calls }
  }

  #forget(name: string, origin: Origin): void {
    if (this.#byName.get(name) === origin) this.#byName.delete(name)
  }
}

/** The window over which a caller's rate is averaged, in ms. */
export const PACE_MS = 5_000

/**
 * How far a caller is behind the minimum rate at which it must read a response or send its body. Only time in which the gateway
 * waits for the caller counts, so a slow seller never counts against the caller.
 */
export class Pace {
  /** How much longer the caller took than its bytes allow, in ms. */
  #behindMs = 0
  /** When the gateway began to wait for the caller, by `performance.now()`. 0 while the gateway does not wait. */
  #sinceMs = 0
  #upload: Transform | null = null
  readonly #bytesPerMs: number

  constructor(slowestBytesPerSecond: number) {
    this.#bytesPerMs = slowestBytesPerSecond / 1_000
  }

  /** Notes that the gateway waits for the caller from now on. */
  waits(): void {
    this.#sinceMs = performance.now()
  }

  /** Notes that the caller read or sent this many bytes. The gateway then does not wait until {@link waits} is called. */
  moved(bytes: number): void {
    if (this.#sinceMs === 0) return
    const waitedMs = performance.now() - this.#sinceMs
    this.#behindMs = Math.max(0, this.#behindMs + waitedMs - bytes / this.#bytesPerMs)
    this.#sinceMs = 0
  }

  /**
   * Measures a body that arrives as a stream. While the seller has not read all that arrived, the gateway does not wait for the
   * caller.
   */
  uploads(body: Transform): void {
    this.#upload = body
    this.waits()
  }

  /** Notes that the gateway no longer waits for the caller, because the body has arrived or the reader has disconnected. */
  rests(): void {
    this.#upload = null
    this.#behindMs = this.#sinceMs = 0
  }

  /** Whether the gateway waits for the next piece of a body. */
  get isUploading(): boolean {
    return this.#upload !== null && this.#upload.readableLength === 0
  }

  /** @param patienceMs how far the caller may be behind, in ms */
  isBehind(nowMs: number, patienceMs: number): boolean {
    if (this.#upload !== null) {
      if (this.#upload.readableLength > 0) return false
      // The seller has read everything that arrived, so the gateway waits for the caller.
      if (this.#sinceMs === 0) this.#sinceMs = nowMs
    }
    return this.#behindMs + (this.#sinceMs === 0 ? 0 : nowMs - this.#sinceMs) >= patienceMs
  }
}
