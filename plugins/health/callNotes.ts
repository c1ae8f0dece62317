import type { ServedLink } from '../../core/domain/link.ts'
import type { Caller } from '../../core/domain/suspension.ts'
import type { JobLine } from '../../core/ports/jobLine.ts'

const MINUTE_MS = 60_000
/** Callers that one note names. */
const MAX_CALLERS = 50
/** Payers who were served that one note names: as many as ever have to be outnumbered. */
const MAX_SERVED = 20
const TOPIC = 'health.calls'
/** How long a process gathers what its calls did before it says so, so that a busy one says it ten times a second. */
export const GATHER_CALLS_MS = 100

/** Calls that began in one minute, as far as one note tells of them. */
export interface NotedMinute {
  /** Minutes since 1970. */
  readonly minute: number
  /** Calls that began, less those that were taken back: below zero when more were. */
  readonly begun: number
  readonly failed: number
  /** Who met the failures, in their order; of a flood the first ones. */
  readonly failedBy: readonly Failed[]
  /** Who paid and was served, as far. */
  readonly served: readonly Caller[]
}

/** A call that failed: whose it was, and whether he was charged all the same. */
export interface Failed {
  readonly caller: Caller
  readonly isCharged: boolean
}

/** What one process saw of a link's calls since its last note. */
export interface CallNote {
  readonly linkId: string
  /** The address that callers use. */
  readonly username: string
  readonly slug: string
  readonly minutes: readonly NotedMinute[]
  /** One of the calls was answered well. */
  readonly hasAnswered: boolean
  /** One of the calls failed while the process did not get out itself: the failures are not the seller's. */
  readonly isWayOutDown: boolean
}

/** What a process's calls do, link by link, posted in small batches to the process that judges them. */
export class CallNotes {
  readonly #called = new Map<string, LinkCalls>()
  #timer: NodeJS.Timeout | undefined
  readonly #line: JobLine

  constructor(line: JobLine) {
    this.#line = line
  }

  /** Hears the batches of all processes. @returns a function that ends it */
  static hear(line: JobLine, listener: (batch: readonly CallNote[]) => void): () => void {
    return line.hear(TOPIC, (batch) => listener(batch as readonly CallNote[]))
  }

  /** The note that is being gathered: something is about to be said of the link. */
  of(link: ServedLink): LinkCalls {
    let calls = this.#called.get(link.id)
    if (calls === undefined) {
      this.#called.set(link.id, (calls = new LinkCalls(link)))
      this.#timer ??= setTimeout(() => this.flush(), GATHER_CALLS_MS).unref()
    }
    return calls
  }

  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const batch = Array.from(this.#called.values(), (calls) => calls.note)
    this.#called.clear()
    if (batch.length > 0) this.#line.post(TOPIC, batch)
  }
}

/** The calls of one link since the last note: a successful one costs an addition. */
class LinkCalls {
  readonly #minutes: {
    minute: number
    begun: number
    failed: number
    failedBy: Failed[]
    served: Caller[]
  }[] = []
  #hasAnswered = false
  #isWayOutDown = false
  readonly #link: ServedLink

  constructor(link: ServedLink) {
    this.#link = link
  }

  /** The seller's API is about to be asked. */
  begins(startedAtMs: number): void {
    this.#at(startedAtMs).begun++
  }

  /** It was not asked after all, or its caller broke the call off: as if the call had not been. */
  takenBack(startedAtMs: number): void {
    this.#at(startedAtMs).begun--
  }

  answered(startedAtMs: number): void {
    if (this.#hasAnswered) return
    this.#at(startedAtMs)
    this.#hasAnswered = true
  }

  /** Somebody who had paid was answered. */
  served(startedAtMs: number, caller: () => Caller): void {
    const { served } = this.#at(startedAtMs)
    if (served.length < MAX_SERVED) served.push(caller())
    this.answered(startedAtMs)
  }

  failed(startedAtMs: number, isWayOutDown: boolean, failed: Failed): void {
    const minute = this.#at(startedAtMs)
    minute.failed++
    if (minute.failedBy.length < MAX_CALLERS) minute.failedBy.push(failed)
    if (isWayOutDown) this.#isWayOutDown = true
  }

  get note(): CallNote {
    const { id: linkId, username, slug, isStealth, privateSlug } = this.#link
    return {
      ...{ linkId, username, slug: isStealth ? privateSlug! : slug },
      minutes: this.#minutes,
      hasAnswered: this.#hasAnswered,
      isWayOutDown: this.#isWayOutDown,
    }
  }

  #at(startedAtMs: number) {
    const minute = Math.floor(startedAtMs / MINUTE_MS)
    const all = this.#minutes
    if (all.length > 0 && all[0]!.minute === minute) return all[0]!
    let found = all.find((one) => one.minute === minute)
    if (found === undefined) all.push((found = { minute, begun: 0, failed: 0, failedBy: [], served: [] }))
    return found
  }
}
