import type { Log } from '../../../../core/ports/log.ts'
import type { TransactionError } from '../check/simulation.ts'
import type { Commitment, Rpc, WithContext } from '../rpc/nodes.ts'
import { createSignatureSocket, type SignatureSocket } from '../rpc/signatureSocket.ts'

/** Maximum number of signatures that a node accepts in one `getSignatureStatuses`. */
export const MAX_SIGNATURES = 256
/** Maximum number of polls in flight, so that a distant node is polled as often as a near one. */
const MAX_ROUNDS = 2

/** A transaction's status by `getSignatureStatuses`. */
export interface SignatureStatus {
  readonly slot: number
  readonly err: TransactionError
  readonly confirmationStatus: 'processed' | 'confirmed' | 'finalized' | null
}

export interface ConfirmerOptions {
  readonly rpc: Pick<Rpc, 'call'>
  readonly commitment: Commitment
  /** Shortest time between polls, and before the first one, in ms. */
  readonly firstPollMs: number
  /** Longest time between polls, in ms. */
  readonly pollMs: number
  /** Time before the first poll while a WebSocket is open, in ms. The WebSocket is most likely faster. */
  readonly pollMsWithSocket: number
  readonly wsUrl?: string | undefined
  readonly log: Log
}

/** A transaction that has reached the commitment. `err` is null when it succeeded. */
export interface Confirmation {
  readonly err: TransactionError
  /** The slot of the transaction. Null for a notification, which names no slot. */
  readonly slot: number | null
}

interface Waiter {
  readonly promise: Promise<Confirmation | undefined>
  /** Whether a notification by WebSocket is expected. */
  isSubscribed: boolean
  /** When the wait began, when it ends, and the next poll, on the monotonic clock. */
  readonly sinceMs: number
  readonly untilMs: number
  dueMs: number
  /** The next poll waits until this time for the response to the poll in flight. 0 if no poll is in flight. */
  patientUntilMs: number
  /** The transaction's age at the last poll that did not find it, in ms. */
  absentMs: number
  finish(confirmation: Confirmation | undefined): void
}

/** Whether a status has reached a commitment. */
export function hasReached(status: SignatureStatus, commitment: Commitment): boolean {
  // Without `err`, the response does not tell whether the transaction succeeded.
  if (status.err === undefined) return false
  return (
    status.confirmationStatus === 'finalized' ||
    (commitment === 'confirmed' && status.confirmationStatus === 'confirmed')
  )
}

/** Reads the status of signatures, in order. Unknown signatures have null. */
export function queryStatuses(
  rpc: Pick<Rpc, 'call'>,
  signatures: readonly string[],
  searchTransactionHistory: boolean,
) {
  return rpc.call<WithContext<(SignatureStatus | null)[]>>('getSignatureStatuses', signatures, {
    searchTransactionHistory,
  })
}

/** Waits for signatures to reach the commitment. All waits share one request per round. */
export class Confirmer {
  readonly #options: ConfirmerOptions
  readonly #pace: ConfirmPace
  readonly #socket: SignatureSocket | undefined
  readonly #waiting = new Map<string, Waiter>()
  #isClosed = false
  #timer: NodeJS.Timeout | undefined
  #roundAtMs = Number.NEGATIVE_INFINITY
  #rounds = 0

  constructor(options: ConfirmerOptions) {
    const { commitment, firstPollMs, pollMs, wsUrl, log } = options
    this.#options = options
    this.#pace = createConfirmPace({ firstMs: firstPollMs, maxMs: pollMs })
    this.#socket =
      wsUrl === undefined
        ? undefined
        : createSignatureSocket({
            url: wsUrl,
            commitment,
            log,
            onResult: (signature, err) => this.#onResult(signature, err),
          })
  }

  /**
   * Resolves when the transaction has reached the commitment, whether it succeeded (`err` is null) or failed. Resolves with
   * undefined after the timeout, after {@link giveUp}, or when the confirmer is closed. Never rejects.
   */
  wait(signature: string, timeoutMs: number): Promise<Confirmation | undefined> {
    if (this.#isClosed) return Promise.resolve(undefined)
    const waiting = this.#waiting
    const other = waiting.get(signature)
    if (other !== undefined) return other.promise
    const { promise, resolve } = Promise.withResolvers<Confirmation | undefined>()
    const isSubscribed = this.#socket?.isOpen === true
    const finish = (confirmation: Confirmation | undefined) => {
      clearTimeout(timeout)
      waiting.delete(signature)
      this.#socket?.unwatch(signature)
      if (waiting.size === 0) clearTimeout(this.#timer)
      resolve(confirmation)
    }
    const timeout = setTimeout(() => {
      this.#pace.note(timeoutMs, timeoutMs)
      finish(undefined)
    }, timeoutMs)
    const sinceMs = performance.now()
    const { typicalMs } = this.#pace
    const { pollMsWithSocket } = this.#options
    // HTTP polls begin after four times the typical time, because a notification would have come by then.
    const silentMs =
      typicalMs === undefined ? pollMsWithSocket : Math.min(pollMsWithSocket, 4 * typicalMs + 200)
    const untilMs = sinceMs + timeoutMs
    waiting.set(signature, {
      promise,
      isSubscribed,
      sinceMs,
      untilMs,
      dueMs: isSubscribed ? sinceMs + silentMs : this.#nextPoll({ sinceMs, untilMs }, sinceMs),
      patientUntilMs: 0,
      absentMs: 0,
      finish,
    })
    this.#socket?.watch(signature)
    this.#arm()
    return promise
  }

  /** Ends the wait for a signature. */
  giveUp(signature: string): void {
    this.#waiting.get(signature)?.finish(undefined)
  }

  close(): void {
    this.#isClosed = true
    for (const { finish } of [...this.#waiting.values()]) finish(undefined)
    clearTimeout(this.#timer)
    this.#socket?.close()
  }

  /** A failure would end a payment for good, so a poll confirms the notification first. */
  #onResult(signature: string, err: TransactionError): void {
    const waiter = this.#waiting.get(signature)
    if (waiter === undefined) return
    if (err !== null) {
      waiter.isSubscribed = false
      waiter.dueMs = performance.now()
      this.#arm()
      return
    }
    const ageMs = performance.now() - waiter.sinceMs
    this.#pace.note(ageMs, ageMs)
    waiter.finish({ err, slot: null })
  }

  /** The next poll is always before the end of the wait, regardless of how long other payments took. */
  #nextPoll({ sinceMs, untilMs }: Pick<Waiter, 'sinceMs' | 'untilMs'>, atMs: number): number {
    const dueMs = atMs + this.#pace.gapMs(atMs - sinceMs)
    return dueMs < untilMs ? dueMs : atMs + Math.max((untilMs - sinceMs) / 8, (untilMs - atMs) / 2)
  }

  /** Sets the only timer, for the waiter that is due first. Without waiters there is no timer. */
  #arm(): void {
    clearTimeout(this.#timer)
    if (this.#waiting.size === 0) return
    let dueMs = Number.POSITIVE_INFINITY
    for (const waiter of this.#waiting.values())
      dueMs = Math.min(dueMs, Math.max(waiter.dueMs, waiter.patientUntilMs))
    // A slow node still gets the next request, but only after a pause.
    const minMs = this.#rounds < MAX_ROUNDS ? this.#pace.minMs : this.#options.pollMs
    const atMs = Math.max(dueMs, this.#roundAtMs + minMs)
    this.#timer = setTimeout(() => void this.#round(), Math.max(0, atMs - performance.now()))
  }

  /** Sends one request for all waiters. */
  async #round(): Promise<void> {
    const polledAtMs = performance.now()
    this.#roundAtMs = polledAtMs
    const polled = [...this.#waiting.values()]
    for (const waiter of polled) {
      waiter.dueMs = Math.max(waiter.dueMs, this.#nextPoll(waiter, polledAtMs))
      waiter.patientUntilMs = polledAtMs + this.#options.pollMs
    }
    this.#rounds++
    this.#arm()
    const pages: Promise<void>[] = []
    const signatures = [...this.#waiting.keys()]
    for (let i = 0; i < signatures.length; i += MAX_SIGNATURES)
      pages.push(this.#poll(signatures.slice(i, i + MAX_SIGNATURES), polledAtMs))
    await Promise.all(pages)
    this.#rounds--
    for (const waiter of polled) waiter.patientUntilMs = 0
    this.#arm()
  }

  async #poll(signatures: readonly string[], polledAtMs: number): Promise<void> {
    const { rpc, log } = this.#options
    try {
      const { value } = await queryStatuses(rpc, signatures, false)
      for (const [i, signature] of signatures.entries()) this.#note(signature, value[i], polledAtMs)
    } catch (error) {
      log.debug({ error, waiting: signatures.length }, 'the status of Solana payments could not be read')
    }
  }

  #note(signature: string, status: SignatureStatus | null | undefined, polledAtMs: number): void {
    const waiter = this.#waiting.get(signature)
    if (waiter === undefined) return
    const ageMs = Math.max(0, polledAtMs - waiter.sinceMs)
    if (status == null || !hasReached(status, this.#options.commitment)) {
      // Responses may arrive in another order than their requests were sent.
      waiter.absentMs = Math.max(waiter.absentMs, ageMs)
      return
    }
    this.#pace.note(Math.min(waiter.absentMs, ageMs), ageMs)
    if (waiter.isSubscribed) this.#socket?.doubt()
    waiter.finish({ err: status.err, slot: status.slot })
  }
}

/** Number of payments from which the pace is computed. It is enough for quartiles and few enough to follow the chain. */
const REMEMBERED = 16
/** Time between polls, as a fraction of the time in which the middle half of the payments lands. */
const PART_OF_SPREAD = 0.6
/** Shortest time between polls, as a fraction of the time that a payment takes. */
const PART_OF_TYPICAL = 1 / 16
/**
 * A transaction that the first poll finds may have landed long before. The estimate of its landing goes back by up to this fraction
 * of its age.
 */
const EARLIER = 7 / 8

interface ConfirmPaceOptions {
  /** Shortest time between two polls, and before the first one, in ms. */
  readonly firstMs: number
  /** Longest time between two polls, in ms; at least `firstMs`. */
  readonly maxMs: number
}

/** Decides when to poll for a sent transaction, because node providers charge for each call. */
interface ConfirmPace {
  /** Median time from sending to landing of recent payments, in ms; undefined before the first payment. */
  readonly typicalMs: number | undefined
  /** Shortest time between two rounds of polls, in ms. */
  readonly minMs: number
  /** Pause before the next poll, given the time since the transaction was sent, both in ms. */
  gapMs(ageMs: number): number
  /**
   * Records that a transaction landed between these two ages, in ms. The first age is 0 if there was no earlier poll. Both are the
   * same if the time is known exactly. For a transaction that did not land, both are the time until the wait ended.
   */
  note(absentMs: number, foundMs: number): void
}

/**
 * A payment is sent at any time within a slot and lands at the slot's end, so landing times spread over a slot's length. The first
 * poll is sent at the age at which a quarter of the recent payments had landed. The next polls follow at a bit more than half of
 * the time in which the middle half of them landed. That is about two polls per payment, with long and with short slots. If a
 * transaction takes longer than three quarters of the others, the pause doubles each time. Before anything has landed, polls start
 * at once and the pause doubles each time.
 *
 * The pace uses quartiles and not means, because a buyer can arrange transactions that never land. These should not slow the polls
 * for others.
 */
export function createConfirmPace({ firstMs, maxMs }: ConfirmPaceOptions): ConfirmPace {
  const mostMs = Math.max(firstMs, maxMs)
  const bounded = (ms: number) => Math.min(mostMs, Math.max(firstMs, ms))
  const lately: number[] = []
  let typicalMs: number | undefined
  let lowMs = 0
  let highMs = 0
  let betweenMs = firstMs

  return {
    get typicalMs() {
      return typicalMs
    },
    get minMs() {
      return Math.max(firstMs, betweenMs / 2)
    },
    gapMs(ageMs) {
      if (typicalMs === undefined) return bounded(ageMs)
      return Math.min(mostMs, Math.max(betweenMs, ageMs < lowMs ? lowMs - ageMs : ageMs - highMs))
    },
    note(absentMs, foundMs) {
      const isFirst = absentMs === 0
      lately.push(
        isFirst
          ? Math.max(foundMs / 2, Math.min(foundMs * EARLIER, foundMs - betweenMs / 2))
          : (absentMs + foundMs) / 2,
      )
      if (lately.length > REMEMBERED) lately.shift()
      const sorted = lately.toSorted((a, b) => a - b)
      typicalMs = sorted[sorted.length >> 1]!
      lowMs = sorted[sorted.length >> 2]!
      highMs = Math.min(2 * typicalMs, sorted[(3 * sorted.length) >> 2]!)
      betweenMs = bounded(
        Math.max(PART_OF_TYPICAL * typicalMs, PART_OF_SPREAD * Math.min(typicalMs, highMs - lowMs)),
      )
    },
  }
}
