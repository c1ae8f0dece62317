import type { Egress, UpstreamPool } from '../../core/ports/egress.ts'

/** A reader who takes nothing for so long may lose its answer to a call that waits for the connection. */
const STALLED_MS = 5_000

/** An answer whose reader can be made to give way. */
export interface Stallable {
  /** Breaks the answer off. */
  giveWay(): void
}

/** The connections to one origin, shared by every link that points there. */
export class Origin {
  /** Calls under way, those that wait for a connection and open tunnels included. */
  openCalls = 0
  #links = 0
  /** Answers whose readers take nothing at the moment, by `performance.now()` since when; the longest first. */
  readonly #stalled = new Map<Stallable, number>()
  #pool: UpstreamPool | null = null
  readonly #name: string
  readonly #egress: Pick<Egress, 'pool'>

  readonly #forget: () => void

  constructor(name: string, egress: Pick<Egress, 'pool'>, forget: () => void) {
    this.#name = name
    this.#egress = egress
    this.#forget = forget
  }

  /** @throws `VALIDATION_ERROR` for an address that may not be connected to. */
  link(): void {
    this.#pool ??= this.#egress.pool(this.#name)
    this.#links++
  }

  unlink(): void {
    this.#links--
    this.#releaseUnused()
  }

  /** A call begins; one of a link that was dropped meanwhile still gets its connection. */
  begin(): void {
    this.#pool ??= this.#egress.pool(this.#name)
    this.openCalls++
  }

  /** There between {@link begin} and {@link end}. */
  get pool(): UpstreamPool {
    return this.#pool!
  }

  stalls(answer: Stallable): void {
    this.#stalled.set(answer, performance.now())
  }

  flows(answer: Stallable): void {
    this.#stalled.delete(answer)
  }

  /** A call waits for a connection: whoever has stood still longest gives way, if that is long enough. */
  makeRoom(): void {
    for (const [answer, sinceMs] of this.#stalled) {
      if (performance.now() - sinceMs >= STALLED_MS) answer.giveWay()
      return
    }
  }

  end(): void {
    this.openCalls--
    this.#releaseUnused()
  }

  #releaseUnused(): void {
    if (this.#links > 0 || this.openCalls > 0) return
    this.#pool?.release()
    this.#pool = null
    this.#forget()
  }
}

const all = new WeakMap<Pick<Egress, 'pool'>, Origins>()

/** The origins of one way out: calls and tunnels of a generation that retires count for the one that follows it. */
export function originsOf(egress: Pick<Egress, 'pool'>): Origins {
  const known = all.get(egress) ?? new Origins(egress)
  all.set(egress, known)
  return known
}

/** Origins of links by name; those that nobody uses are forgotten. */
export class Origins {
  readonly #byName = new Map<string, Origin>()
  readonly #egress: Pick<Egress, 'pool'>

  constructor(egress: Pick<Egress, 'pool'>) {
    this.#egress = egress
  }

  /** @throws `VALIDATION_ERROR` for an address that may not be connected to. */
  link(name: string): Origin {
    const known = this.#byName.get(name)
    const origin = known ?? new Origin(name, this.#egress, () => this.#forget(name, origin))
    origin.link()
    if (known === undefined) this.#byName.set(name, origin)
    return origin
  }

  #forget(name: string, origin: Origin): void {
    if (this.#byName.get(name) === origin) this.#byName.delete(name)
  }
}
