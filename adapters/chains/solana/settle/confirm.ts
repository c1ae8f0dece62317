import type { Log } from '../../../../core/ports/log.ts'
import type { Commitment, TransactionError } from '../check/simulate.ts'
import type { Rpc, WithContext } from '../rpc/createSolanaRpc.ts'
import { createSignatureSocket } from '../rpc/signatureSocket.ts'
import { createConfirmPace } from './confirmPace.ts'

/** Most signatures that a node takes in one `getSignatureStatuses`. */
export const MAX_SIGNATURES = 256
/** Rounds of questions on their way at once, so that a node that is far away is asked as often as one that is near. */
const MAX_ROUNDS = 2

/** Where a transaction stands, as `getSignatureStatuses` tells. */
export interface SignatureStatus {
  readonly slot: number
  readonly err: TransactionError
  readonly confirmationStatus: 'processed' | 'confirmed' | 'finalized' | null
}

export interface ConfirmerOptions {
  readonly rpc: Pick<Rpc, 'call'>
  readonly commitment: Commitment
  /** Least time between questions, and before the first one, in ms. */
  readonly firstPollMs: number
  /** Most time between questions while somebody waits, in ms. */
  readonly pollMs: number
  /** Before the first question while a WebSocket is open and will most likely be faster, in ms. */
  readonly pollMsWithSocket: number
  readonly wsUrl?: string | undefined
  readonly log: Log
}

/** A transaction that has reached the commitment; `err` is null when it succeeded. */
export interface Confirmation {
  readonly err: TransactionError
  /** In which it was seen; null where only its end was told. */
  readonly slot: number | null
}

interface Waiter {
  readonly promise: Promise<Confirmation | undefined>
  /** Whether the WebSocket should tell of it, and has not yet. */
  isSubscribed: boolean
  /** When the wait began, when it ends, and the next question about it, on the monotonic clock. */
  readonly sinceMs: number
  readonly untilMs: number
  dueMs: number
  /** Until when an answer about it is waited for, so that nobody asks twice; 0 while none is under way. */
  patientUntilMs: number
  /** Its age when it was last asked for and was not there, in ms. */
  absentMs: number
  finish(confirmation: Confirmation | undefined): void
}

/** Waits for signatures; all that wait share one question. */
export interface Confirmer {
  /**
   * Resolves when the transaction has reached the commitment, whether it succeeded (`err` is null) or failed, and with
   * undefined when it has not in time, was given up, or when the confirmer is closed. Never rejects.
   */
  wait(signature: string, timeoutMs: number): Promise<Confirmation | undefined>
  /** Ends the wait for a signature. */
  giveUp(signature: string): void
  close(): void
}

/** Whether a status has reached a commitment. */
export function hasReached(status: SignatureStatus, commitment: Commitment): boolean {
  // Without `err` the answer does not say how it ended.
  if (status.err === undefined) return false
  return (
    status.confirmationStatus === 'finalized' ||
    (commitment === 'confirmed' && status.confirmationStatus === 'confirmed')
  )
}

/** Asks where signatures stand; in order, null for unknown ones. */
export function askStatuses(
  rpc: Pick<Rpc, 'call'>,
  signatures: readonly string[],
  searchTransactionHistory: boolean,
) {
  return rpc.call<WithContext<(SignatureStatus | null)[]>>('getSignatureStatuses', signatures, {
    searchTransactionHistory,
  })
}

export function createConfirmer(options: ConfirmerOptions): Confirmer {
  const { rpc, commitment, firstPollMs, pollMs, pollMsWithSocket, wsUrl, log } = options
  const pace = createConfirmPace({ firstMs: firstPollMs, maxMs: pollMs })
  const waiting = new Map<string, Waiter>()
  let isClosed = false
  let timer: NodeJS.Timeout | undefined
  let roundAtMs = Number.NEGATIVE_INFINITY
  let roundsUnderWay = 0

  /** A failure ends a payment for good, so the node is asked whether it means what it told. */
  const hear = (signature: string, err: TransactionError) => {
    const waiter = waiting.get(signature)
    if (waiter === undefined) return
    if (err !== null) {
      waiter.isSubscribed = false
      waiter.dueMs = performance.now()
      arm()
      return
    }
    const ageMs = performance.now() - waiter.sinceMs
    pace.note(ageMs, ageMs)
    waiter.finish({ err, slot: null })
  }
  const socket =
    wsUrl === undefined ? undefined : createSignatureSocket({ url: wsUrl, commitment, log, onResult: hear })

  /** Never so late that the wait is over before anybody has looked, whatever others took. */
  const nextLook = ({ sinceMs, untilMs }: Pick<Waiter, 'sinceMs' | 'untilMs'>, atMs: number) => {
    const dueMs = atMs + pace.gapMs(atMs - sinceMs)
    return dueMs < untilMs ? dueMs : atMs + Math.max((untilMs - sinceMs) / 8, (untilMs - atMs) / 2)
  }
  /** Sets the one timer for whoever is due first; without anybody who waits there is none. */
  const arm = () => {
    clearTimeout(timer)
    if (waiting.size === 0) return
    let dueMs = Number.POSITIVE_INFINITY
    for (const waiter of waiting.values())
      dueMs = Math.min(dueMs, Math.max(waiter.dueMs, waiter.patientUntilMs))
    // A node that keeps questions waiting gets the next one all the same, but not at once.
    const leastMs = roundsUnderWay < MAX_ROUNDS ? pace.leastMs : pollMs
    const atMs = Math.max(dueMs, roundAtMs + leastMs)
    timer = setTimeout(round, Math.max(0, atMs - performance.now()))
  }
  /** One question for everybody who waits. */
  const round = async () => {
    const askedAtMs = performance.now()
    roundAtMs = askedAtMs
    const asked = [...waiting.values()]
    for (const waiter of asked) {
      waiter.dueMs = Math.max(waiter.dueMs, nextLook(waiter, askedAtMs))
      waiter.patientUntilMs = askedAtMs + pollMs
    }
    roundsUnderWay++
    arm()
    const pages: Promise<void>[] = []
    const signatures = [...waiting.keys()]
    for (let i = 0; i < signatures.length; i += MAX_SIGNATURES)
      pages.push(ask(signatures.slice(i, i + MAX_SIGNATURES), askedAtMs))
    await Promise.all(pages)
    roundsUnderWay--
    for (const waiter of asked) waiter.patientUntilMs = 0
    arm()
  }
  const ask = async (signatures: readonly string[], askedAtMs: number) => {
    try {
      const { value } = await askStatuses(rpc, signatures, false)
      for (const [i, signature] of signatures.entries()) tell(signature, value[i], askedAtMs)
    } catch (error) {
      log.debug({ error, waiting: signatures.length }, 'the status of Solana payments could not be asked for')
    }
  }
  const tell = (signature: string, status: SignatureStatus | null | undefined, askedAtMs: number) => {
    const waiter = waiting.get(signature)
    if (waiter === undefined) return
    const ageMs = Math.max(0, askedAtMs - waiter.sinceMs)
    if (status == null || !hasReached(status, commitment)) {
      // Answers may come in another order than the questions went out.
      waiter.absentMs = Math.max(waiter.absentMs, ageMs)
      return
    }
    pace.note(Math.min(waiter.absentMs, ageMs), ageMs)
    if (waiter.isSubscribed) socket?.doubt()
    waiter.finish({ err: status.err, slot: status.slot })
  }

  return {
    wait(signature, timeoutMs) {
      if (isClosed) return Promise.resolve(undefined)
      const other = waiting.get(signature)
      if (other !== undefined) return other.promise
      const { promise, resolve } = Promise.withResolvers<Confirmation | undefined>()
      const isSubscribed = socket?.isOpen === true
      const finish = (confirmation: Confirmation | undefined) => {
        clearTimeout(timeout)
        waiting.delete(signature)
        socket?.unwatch(signature)
        if (waiting.size === 0) clearTimeout(timer)
        resolve(confirmation)
      }
      const timeout = setTimeout(() => {
        pace.note(timeoutMs, timeoutMs)
        finish(undefined)
      }, timeoutMs)
      const sinceMs = performance.now()
      const { typicalMs } = pace
      // The WebSocket had its time when four times the usual has passed.
      const silentMs =
        typicalMs === undefined ? pollMsWithSocket : Math.min(pollMsWithSocket, 4 * typicalMs + 200)
      const untilMs = sinceMs + timeoutMs
      const dueMs = isSubscribed ? sinceMs + silentMs : nextLook({ sinceMs, untilMs }, sinceMs)
      const times = { sinceMs, untilMs, dueMs, patientUntilMs: 0, absentMs: 0 }
      waiting.set(signature, { promise, isSubscribed, ...times, finish })
      socket?.watch(signature)
      arm()
      return promise
    },
    giveUp(signature) {
      waiting.get(signature)?.finish(undefined)
    },
    close() {
      isClosed = true
      for (const { finish } of [...waiting.values()]) finish(undefined)
      clearTimeout(timer)
      socket?.close()
    },
  }
}
