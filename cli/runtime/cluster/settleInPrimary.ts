import { notStarted } from '../../../adapters/chains/refuse.ts'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import type { Hold, SettleOutcome, Settler, Verified } from '../../../core/ports/chains/settler.ts'
import type { FromPrimary, FromWorker } from './messages.ts'

/** The worker's end: settlers that verify and settle in the primary. */
export interface PrimarySettling {
  /**
   * Checks here, verifies and settles there: one process has the key's account nonces, and one counts what is on its way
   * and what it may cost.
   */
  wrap(settler: Settler): Settler
  /** Takes a message of the primary; false when it is about something else. */
  receive(message: FromPrimary): boolean
  /** Questions that wait for an answer. */
  readonly waiting: number
  /**
   * Asks anew what was asked so long ago and has no answer, with the same number: where messages may be lost, and whoever is
   * asked keeps what it has answered.
   */
  askAgain(afterMs: number): void
  /**
   * What was asked to be verified so long ago and has no answer: the question or its answer was lost on its way. It is refused
   * for now, nothing is charged, and what is held for it is given back.
   */
  refuseLate(afterMs: number): void
  /** What was asked to be settled so long ago and has no outcome: the same as when whoever was asked is lost. */
  endLate(afterMs: number): void
  /**
   * Whoever was asked settles no more, and may have sent what was stored: that is pending. What was not stored will not be,
   * and nothing of it is charged.
   */
  lost(): void
}

interface Waiting<T> {
  readonly resolve: (value: T) => void
  readonly reject: (error: Error) => void
  readonly question: FromWorker
  readonly sinceMs: number
  /** When it was asked last. */
  askedMs: number
}

/** What a settlement is stored by, and what came of it. */
interface Storing {
  readonly store: (attempt: SettlementAttempt) => Promise<boolean>
  /** What is stored. It may be stored anew, with other bytes; a no to these leaves open what became of those of before. */
  attempt?: SettlementAttempt
  /** The latest that was to be stored. */
  turn: number
  transaction?: string
  stored?: Promise<boolean>
}

/**
 * The number of the last question of this process. Whoever was asked may answer when the way on which it was asked is given up,
 * and another one to it is open: no two questions have one number.
 */
let last = 0

/** @param send to the primary; a worker whose primary is gone ends itself, so no question stays open */
export function createPrimarySettling(send: (message: FromWorker) => void): PrimarySettling {
  const verifying = new Map<number, Waiting<Verified>>()
  const settling = new Map<number, Waiting<SettleOutcome>>()
  const stores = new Map<number, Storing>()
  /** Questions whose holds are in somebody's hands here. */
  const held = new Set<number>()
  /** What the primary holds for this worker, by the number of the question. */
  const heldAs = new WeakMap<Hold, number>()

  const verify =
    (network: string): Settler['verify'] =>
    (payment, terms, identity, { storeId }) =>
      new Promise((resolve, reject) => {
        const call = ++last
        const question = { type: 'verify', call, network, payment, terms, identity, storeId } as const
        ask(verifying, call, { question, resolve, reject })
      })

  const settle =
    (network: string): Settler['settle'] =>
    (payment, terms, identity, store, hold) =>
      new Promise((resolve, reject) => {
        const call = ++last
        stores.set(call, { store, turn: 0 })
        const of = hold === undefined ? undefined : heldAs.get(hold)
        // From here on it is the settlement's.
        if (hold !== undefined) heldAs.delete(hold)
        if (of !== undefined) held.delete(of)
        const asked = { type: 'settle', call, network, payment, terms, identity } as const
        const question = of === undefined ? asked : { ...asked, held: of }
        ask(settling, call, { question, resolve, reject })
      })

  function ask<T>(
    waiting: Map<number, Waiting<T>>,
    call: number,
    asked: Omit<Waiting<T>, 'sinceMs' | 'askedMs'>,
  ): void {
    const sinceMs = performance.now()
    waiting.set(call, { ...asked, sinceMs, askedMs: sinceMs })
    send(asked.question)
  }

  function holdOf(call: number): Hold {
    const hold: Hold = {
      release() {
        if (!heldAs.delete(hold)) return
        held.delete(call)
        send({ type: 'release', held: call })
      },
    }
    heldAs.set(hold, call)
    held.add(call)
    return hold
  }

  async function storeHere({ call, turn, attempt }: Extract<FromPrimary, { type: 'store' }>): Promise<void> {
    const { transaction } = attempt
    const answer = (ok: boolean) => send({ type: 'stored', call, turn, transaction, ok })
    const storing = stores.get(call)
    if (storing === undefined) return answer(false)
    // Of an earlier turn it was answered, and heard: there would be no later one else.
    if (turn < storing.turn) return
    if (turn > storing.turn) {
      storing.turn = turn
      storing.transaction = transaction
      // A store that can't say is a no: nothing is broadcast then.
      storing.stored = storing.store(attempt).catch(() => false)
    } else if (transaction !== storing.transaction) {
      // Begun anew by a primary that has forgotten how far it was: what is stored may be on its way, and nothing takes its place.
      answer(false)
      return endAsLost(call)
    }
    const ok = await storing.stored!
    if (ok && turn === storing.turn) storing.attempt = attempt
    answer(ok)
  }

  async function outcomeOfLost(storing: Storing | undefined): Promise<SettleOutcome> {
    const isStored = await storing?.stored
    if (storing?.attempt === undefined && isStored !== true) return { ...notStarted, status: 'rejected' }
    const transaction = storing?.attempt?.transaction ?? ''
    return { status: 'pending', transaction, reason: 'settlement_pending' }
  }

  /** As when whoever was asked is gone. From here on nothing more is stored for it: what is asked late hears no. */
  function endAsLost(call: number): void {
    const storing = stores.get(call)
    const waiting = end(settling, call)
    if (waiting !== undefined) void outcomeOfLost(storing).then(waiting.resolve)
  }

  function end<T>(waiting: Map<number, Waiting<T>>, call: number): Waiting<T> | undefined {
    const one = waiting.get(call)
    waiting.delete(call)
    stores.delete(call)
    return one
  }

  return {
    wrap: (settler) =>
      Object.create(settler, {
        verify: { value: verify(settler.network) },
        settle: { value: settle(settler.network) },
        start: { value: async () => undefined },
      }) as Settler,
    receive(message) {
      switch (message.type) {
        case 'verified': {
          const { call, refusal } = message
          const waiting = end(verifying, call)
          // Nobody waits for it any more: what is held for it is free. One that is told twice is held here.
          if (waiting === undefined && refusal === null && !held.has(call))
            send({ type: 'release', held: call })
          waiting?.resolve(refusal ?? { ok: true, hold: holdOf(call) })
          return true
        }
        case 'store':
          void storeHere(message)
          return true
        case 'settled':
          end(settling, message.call)?.resolve(message.outcome)
          return true
        case 'broken': {
          const broken =
            end<never>(verifying as never, message.call) ?? end<never>(settling as never, message.call)
          broken?.reject(new Error(message.message))
          return true
        }
        case 'forgotten':
          endAsLost(message.call)
          return true
        default:
          return false
      }
    },
    get waiting() {
      return verifying.size + settling.size
    },
    askAgain(afterMs) {
      const nowMs = performance.now()
      for (const waiting of [verifying, settling])
        for (const [call, one] of waiting) {
          if (one.askedMs > nowMs - afterMs) continue
          one.askedMs = nowMs
          const turn = stores.get(call)?.turn ?? 0
          send(one.question.type === 'settle' && turn > 0 ? { ...one.question, turn } : one.question)
        }
    },
    refuseLate(afterMs) {
      const lateMs = performance.now() - afterMs
      for (const [call, { sinceMs, resolve }] of verifying) {
        if (sinceMs > lateMs) continue
        verifying.delete(call)
        send({ type: 'release', held: call })
        resolve(notStarted)
      }
    },
    endLate(afterMs) {
      const lateMs = performance.now() - afterMs
      for (const [call, { sinceMs }] of settling) if (sinceMs <= lateMs) endAsLost(call)
    },
    lost() {
      for (const { resolve } of verifying.values()) resolve(notStarted)
      verifying.clear()
      for (const call of settling.keys()) endAsLost(call)
    },
  }
}
