import type { ServedLink } from '../../core/domain/link.ts'
import type { Caller } from '../../core/domain/suspension.ts'
import type { JobChannel } from '../../core/ports/jobChannel.ts'

const MINUTE_MS = 60_000
/** Maximum failed calls in one note that are listed with their callers, for each minute. */
const MAX_CALLERS = 50
/** Maximum served payers in one note. The judge never compares failures with more payers than this. */
const MAX_SERVED = 20
const TOPIC = 'health.calls'
/** How long a process batches the outcomes of its calls before it posts them, in ms. A busy process posts ten times a second. */
export const GATHER_CALLS_MS = 100

/** The calls of one link that began in one minute, as one note reports them. */
export interface NotedMinute {
  /** Minutes since 1970. */
  readonly minute: number
  /** Calls that began, minus calls that were taken back. Negative if more calls were taken back than began. */
  readonly begun: number
  readonly failed: number
  /** The callers of failed calls, in the order of the calls. Only the first ones if there are too many. */
  readonly failedBy: readonly Failed[]
  /** Payers who got a response, at most {@link MAX_SERVED}. */
  readonly served: readonly Caller[]
}

/** A failed call: its caller, and whether the caller was charged anyway. */
export interface Failed {
  readonly caller: Caller
  readonly isCharged: boolean
}

/** What one process observed of a link's calls since its last note about the link. */
export interface CallNote {
  readonly linkId: string
  /** The username in the link's address. */
  readonly username: string
  readonly slug: string
  readonly minutes: readonly NotedMinute[]
  /** True if one of the calls got a good response. */
  readonly hasAnswered: boolean
  /**
   * True if a call failed while the process itself had no connectivity. The failures of this note are then not the seller's fault.
   */
  readonly isOffline: boolean
}

/** Collects the outcomes of a process's calls by link, and posts them in small batches to the process that judges them. */
export class CallNotes {
  #called: LinkCalls[] = []
  #timer: NodeJS.Timeout | undefined
  readonly #line: JobChannel

  constructor(line: JobChannel) {
    this.#line = line
  }

  /** Receives the batches of all processes. @returns a function that stops receiving */
  static listen(line: JobChannel, listener: (batch: readonly CallNote[]) => void): () => void {
    return line.listen(TOPIC, (batch) => listener(batch as readonly CallNote[]))
  }

  /** Includes a link's calls in the next batch. */
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
 * The calls of one link since its last note. The object lives as long as the link is compiled. A successful call only adds to its
 * numbers and allocates nothing, because new objects would cost time in garbage collection.
 */
export class LinkCalls {
  #minute = 0
  #begun = 0
  #hasAnswered = false
  #isOffline = false
  /** Failed calls and served payers of the current minute, and all counts of other minutes. */
  #more: Minute[] | null = null
  #isNoted = false
  readonly #link: ServedLink
  readonly #notes: CallNotes

  constructor(link: ServedLink, notes: CallNotes) {
    this.#link = link
    this.#notes = notes
  }

  /** Counts a call that the gateway is about to send to the seller's API. */
  begins(startedAtMs: number): void {
    this.#count(startedAtMs, 1)
  }

  /** Removes a call from the count, because the gateway did not call the seller's API, or the caller aborted the call. */
  takenBack(startedAtMs: number): void {
    this.#count(startedAtMs, -1)
  }

  answered(): void {
    if (this.#hasAnswered) return
    this.#hasAnswered = true
    this.#note()
  }

  /** Counts a payer who got a response. */
  served(startedAtMs: number, caller: () => Caller): void {
    const { served } = this.#moreOf(minuteOf(startedAtMs))
    if (served.length < MAX_SERVED) served.push(caller())
    this.answered()
  }

  failed(startedAtMs: number, isOffline: boolean, failed: Failed): void {
    const minute = this.#moreOf(minuteOf(startedAtMs))
    minute.failed++
    if (minute.failedBy.length < MAX_CALLERS) minute.failedBy.push(failed)
    if (isOffline) this.#isOffline = true
  }

  /** Returns all counts as a note, and resets them. */
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
      linkId,
      username,
      slug: isStealth ? privateSlug! : slug,
      minutes: this.#more === null ? [begun] : [begun, ...this.#more],
      hasAnswered: this.#hasAnswered,
      isOffline: this.#isOffline,
    }
    this.#begun = 0
    this.#more = null
    this.#hasAnswered = this.#isOffline = this.#isNoted = false
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
