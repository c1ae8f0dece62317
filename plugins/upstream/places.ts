/** To a paid call, and to one of a store that holds fewer places, a call gives way that has had its own for so long. */
export const PRESSED_MS = 5_000
/** How often it is looked whether somebody should give way: most calls end by themselves within that. */
const LOOK_MS = 1_000

/** A call that holds a place, as far as it can be made to give it back. */
export interface Holder {
  /** Whether its caller takes or sends so little that it gives way to whoever waits. @param nowMs by `performance.now()` */
  isBehind(nowMs: number): boolean
  /** Breaks the call off. One that was charged goes on without its reader for as long as its answer can be kept. */
  giveWay(): void
}

/** The calls of one store at one origin. */
export class StoreCalls {
  /** Links that point there. */
  links = 0
  /** Calls under way: waiting, holding a place, and open tunnels. */
  open = 0
  /** Places that they hold. */
  held = 0
  readonly waitingPaid = new Set<Place>()
  readonly waitingFree = new Set<Place>()
  readonly storeId: string

  constructor(storeId: string) {
    this.storeId = storeId
  }

  get nextWaiting(): Place | undefined {
    for (const place of this.waitingPaid) return place
    for (const place of this.waitingFree) return place
    return undefined
  }
}

/** One call's place, from its begin to its {@link release}; the call may have to wait for it. */
export class Place {
  state: 'waiting' | 'held' | 'tunnel' | 'over' = 'waiting'
  /** By `performance.now()`: since when it is held. */
  sinceMs = 0
  /** Where it stands among those that are held. */
  index = -1
  /** Called when a call that waited has its place. */
  granted: (() => void) | null = null
  /** Null while nobody may take the place away: the call is being verified or charged. */
  holder: Holder | null = null
  isCharged = false
  /** When it was told to give way, by `performance.now()`; 0 when it was not. */
  dismissedMs = 0
  #isConnecting = false
  #isLeft = false
  readonly store: StoreCalls
  readonly isPaid: boolean
  /** How long a free call has the place at least while free calls of the same store wait. */
  readonly freeTurnMs: number
  readonly #places: Places

  constructor(places: Places, store: StoreCalls, isPaid: boolean, freeTurnMs: number) {
    this.#places = places
    this.store = store
    this.isPaid = isPaid
    this.freeTurnMs = freeTurnMs
  }

  /**
   * A connection is asked for. Until it is there or has failed it counts, also when nobody wants it any more: callers who
   * leave at once would otherwise have as many opened as they like.
   */
  connects(): void {
    this.#isConnecting = true
  }

  /** The connection is there, or there will be none. */
  connected(): void {
    this.#isConnecting = false
    if (this.#isLeft) this.release()
  }

  /** Gives it back, or gives up waiting for it. Once; more often does nothing. */
  release(): void {
    this.#isLeft = true
    if (this.#isConnecting) this.holder = null
    else this.#places.release(this)
  }

  /** The call has become a tunnel: still one of its store's calls, but its connection is none of the pool's any more. */
  becomeTunnel(): void {
    this.#places.becomeTunnel(this)
  }
}

/**
 * Who may use the connections to one origin. There is a place for each connection; stores that share the origin share them:
 *
 * - A store alone may hold all of them. When several wait, the one that holds fewest is next, its paid calls before its free ones.
 * - While a call waits, somebody gives way to it: a caller who is too slow, then whoever has had a place for long enough, out of the
 *   store that holds most. Never to a store that holds more already, and no call that was charged.
 * - A paid call of a store that holds less than a sixteenth of the places never waits: it gets one beyond their number. Calls that can't
 *   give way, such as paid streams without an end, would otherwise keep a neighbour from selling at all.
 */
export class Places {
  /** As many as there are connections. */
  total = 1
  /** Calls under way at the origin. */
  open = 0
  held = 0
  /** In no order, and no Set, whose former tables would keep the calls of their time alive until the whole heap is collected. */
  readonly #holding: Place[] = []
  /** Stores of which calls wait. */
  readonly #waiting = new Set<StoreCalls>()
  #timer: NodeJS.Timeout | undefined
  readonly #ended: (store: StoreCalls) => void

  /** @param ended called after a call has ended */
  constructor(ended: (store: StoreCalls) => void) {
    this.#ended = ended
  }

  /** A call begins: it holds its place at once, or waits for it. */
  begin(store: StoreCalls, isPaid: boolean, freeTurnMs: number): Place {
    const place = new Place(this, store, isPaid, freeTurnMs)
    this.open++
    store.open++
    if (this.#hasRoomFor(store, isPaid)) this.#hold(place)
    else this.#wait(place)
    return place
  }

  release(place: Place): void {
    const { state, store } = place
    if (state === 'over') return
    if (state === 'waiting') this.#leaveQueue(place)
    if (state === 'held') this.#giveBack(place)
    place.state = 'over'
    place.holder = place.granted = null
    this.open--
    store.open--
    if (state === 'held') this.#grant()
    this.#ended(store)
  }

  becomeTunnel(place: Place): void {
    if (place.state !== 'held') return
    this.#giveBack(place)
    place.state = 'tunnel'
    place.holder = null
    this.#grant()
  }

  /** @param nowMs by `performance.now()` */
  makeRoom(nowMs: number): void {
    // What was told a moment ago to give way may take a moment.
    let coming = 0
    for (const { dismissedMs } of this.#holding)
      if (dismissedMs > 0 && nowMs - dismissedMs < 2 * LOOK_MS) coming++
    const stores = [...this.#waiting].sort((a, b) => a.held - b.held)
    const oldestFirst = this.#holding.toSorted((a, b) => a.sinceMs - b.sinceMs)
    for (const store of stores) {
      let { held } = store
      for (const place of [...store.waitingPaid, ...store.waitingFree]) {
        if (place.state !== 'waiting') continue
        if (coming === 0) {
          const gives = whoGivesWay(oldestFirst, place, held, nowMs)
          // Whoever comes after it in the same store is no better placed, but for a paid call before free ones.
          if (gives === undefined) break
          gives.dismissedMs = nowMs
          gives.holder!.giveWay()
        } else coming--
        held++
      }
    }
  }

  #hasRoomFor(store: StoreCalls, isPaid: boolean): boolean {
    return this.held < this.total || (isPaid && store.held < Math.max(1, this.total >> 4))
  }

  #hold(place: Place): void {
    place.state = 'held'
    place.sinceMs = performance.now()
    this.held++
    place.store.held++
    place.index = this.#holding.push(place) - 1
  }

  #giveBack(place: Place): void {
    this.held--
    place.store.held--
    const last = this.#holding.pop()!
    if (last === place) return
    this.#holding[place.index] = last
    last.index = place.index
  }

  #wait(place: Place): void {
    const { store, isPaid } = place
    ;(isPaid ? store.waitingPaid : store.waitingFree).add(place)
    this.#waiting.add(store)
    this.#timer ??= setInterval(() => this.makeRoom(performance.now()), LOOK_MS).unref()
  }

  #leaveQueue(place: Place): void {
    const { store } = place
    store.waitingPaid.delete(place)
    store.waitingFree.delete(place)
    if (store.waitingPaid.size + store.waitingFree.size > 0) return
    this.#waiting.delete(store)
    if (this.#waiting.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Gives free places to those who wait. */
  #grant(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#leaveQueue(next)
      this.#hold(next)
      next.granted?.()
    }
  }

  #next(): Place | undefined {
    let next: Place | undefined
    for (const store of this.#waiting) {
      if (next !== undefined && next.store.held <= store.held) continue
      const place = store.nextWaiting!
      if (this.#hasRoomFor(store, place.isPaid)) next = place
    }
    return next
  }
}

/** @param held places of the one who waits, those that were just made for it included */
function whoGivesWay(
  holding: readonly Place[],
  waiting: Place,
  held: number,
  nowMs: number,
): Place | undefined {
  let longest: Place | undefined
  for (const place of holding) {
    const { store, holder } = place
    if (holder === null || place.dismissedMs > 0) continue
    const isNeighbour = store !== waiting.store
    if (isNeighbour && store.held <= held) continue
    if (holder.isBehind(nowMs)) return place
    if (place.isCharged || (longest !== undefined && longest.store.held >= store.held)) continue
    const isPressed = (waiting.isPaid && !place.isPaid) || (isNeighbour && store.held > held + 1)
    if (!isPressed && place.isPaid) continue
    if (nowMs - place.sinceMs >= (isPressed ? PRESSED_MS : place.freeTurnMs)) longest = place
  }
  return longest
}
