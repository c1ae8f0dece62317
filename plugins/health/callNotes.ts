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
  #called: LinkCalls[] = []
  #timer: NodeJS.Timeout | undefined
  readonly #line: JobLine

  constructor(line: JobLine) {
    this.#line = line
  }

  /** Hears the batches of all processes. @returns a function that ends it */
  static hear(line: JobLine, listener: (batch: readonly CallNote[]) => void): () => void {
    return line.hear(TOPIC, (batch) => listener(batch as readonly CallNote[]))
  }

  /** Something is to be said of these calls. */
  add(calls: LinkCalls): void {
    this.#called.push(calls)
    this.#timer ??= setTimeout(() => this.flush(), GATHER_CALLS_MS).unref()
  }

  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const batch = this.#called.map((calls) => calls.take())
    this.#called = []
    if (batch.length > 0) this.#line.post(TOPIC, batch)
  }
}

interface Minute extends NotedMinute {
  begun: number
  failed: number
  failedBy: Failed[]
  served: Caller[]
}

/**
 * The calls of one link since its last note. It lives as long as the link is compiled: a successful call adds to its numbers and
 * makes nothing, because what lives for some moments is copied by the collector.
 */
export class LinkCalls {
  #minute = 0
  #begun = 0
  #hasAnswered = false
  #isWayOutDown = false
  /** What else there is to tell of a minute, and of other minutes than that one. */
  #more: Minute[] | null = null
  #isNoted = false
  readonly #link: ServedLink
  readonly #notes: CallNotes

  constructor(link: ServedLink, notes: CallNotes) {
    this.#link = link
    this.#notes = notes
  }

  /** The seller's API is about to be asked. */
  begins(startedAtMs: number): void {
    this.#count(startedAtMs, 1)
  }

  /** It was not asked after all, or its caller broke the call off: as if the call had not been. */
  takenBack(startedAtMs: number): void {
    this.#count(startedAtMs, -1)
  }

  answered(): void {
    if (this.#hasAnswered) return
    this.#hasAnswered = true
    this.#note()
  }

  /** Somebody who had paid was answered. */
  served(startedAtMs: number, caller: () => Caller): void {
    const { served } = this.#moreOf(minuteOf(startedAtMs))
    if (served.length < MAX_SERVED) served.push(caller())
    this.answered()
  }

  failed(startedAtMs: number, isWayOutDown: boolean, failed: Failed): void {
    const minute = this.#moreOf(minuteOf(startedAtMs))
    minute.failed++
    if (minute.failedBy.length < MAX_CALLERS) minute.failedBy.push(failed)
    if (isWayOutDown) this.#isWayOutDown = true
  }

  /** All of it, to be told; it counts anew from there. */
  take(): CallNote {
    const { id: linkId, username, slug, isStealth, privateSlug } = this.#link
    const begun: NotedMinute = {
      minute: this.#minute,
      begun: this.#begun,
      failed: 0,
      failedBy: [],
      served: [],
    }
    const note = {
      ...{ linkId, username, slug: isStealth ? privateSlug! : slug },
      minutes: this.#more === null ? [begun] : [begun, ...this.#more],
      hasAnswered: this.#hasAnswered,
      isWayOutDown: this.#isWayOutDown,
    }
    this.#begun = 0
    this.#more = null
    this.#hasAnswered = this.#isWayOutDown = this.#isNoted = false
    return note
  }

  #count(startedAtMs: number, begun: number): void {
    const minute = minuteOf(startedAtMs)
    if (this.#begun === 0) this.#minute = minute
    if (this.#minute === minute) this.#begun += begun
    else this.#moreOf(minute).begun += begun
    this.#note()
  }

  #moreOf(minute: number): Minute {
    this.#more ??= []
    let found = this.#more.find((one) => one.minute === minute)
    if (found === undefined)
      this.#more.push((found = { minute, begun: 0, failed: 0, failedBy: [], served: [] }))
    this.#note()
    return found
  }

  #note(): void {
    if (this.#isNoted) return
    this.#isNoted = true
    this.#notes.add(this)
  }
}

const minuteOf = (ms: number): number => Math.floor(ms / MINUTE_MS)
