import type { NetworkId } from '../../../core/domain/network.ts'
import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import type { Chains } from '../../../core/ports/chains/chains.ts'
import type { Hold, Settler } from '../../../core/ports/chains/settler.ts'
import type { FromPrimary, FromWorker } from './messages.ts'

/**
 * The primary's end for one worker: verifies and settles what it asks for. One account nonce queue for all workers, and
 * one count of what is on its way.
 */
export interface WorkerSettling {
  receive(message: FromWorker): boolean
  /**
   * The worker is gone: what waits for its store gets a no, so nothing of it is broadcast, and what is held for its
   * calls is free.
   */
  lost(): void
}

interface Held {
  readonly hold: Hold
  /** The one that was verified: a settler may know more of it than its fields. */
  readonly identity: PaymentIdentity
}

/** What waits for its store. */
interface Storing {
  readonly turn: number
  readonly transaction: string
  readonly resolve: (ok: boolean) => void
}

/** A question, and what is to be said again to whoever asks it again. */
interface Question {
  /** The answer, or what is asked back; absent while that is worked on. */
  said?: FromPrimary
  endedMs?: number
}

/**
 * @param keptMs so long an answer is kept for whoever asks the same question again, because messages may be lost. Default 0: none
 * is, and each question is a new one
 */
export function createWorkerSettling(
  chains: Chains,
  send: (message: FromPrimary) => void,
  keptMs = 0,
): WorkerSettling {
  /** In the order in which they were asked first. */
  const questions = new Map<number, Question>()
  const storing = new Map<number, Storing>()
  const held = new Map<number, Held>()
  let isLost = false

  const settlerOf = (network: string): Settler => {
    const settler = chains.settler(network as NetworkId)
    if (settler === undefined) throw new Error(`${network} is not configured`)
    return settler
  }

  async function verify(message: Extract<FromWorker, { type: 'verify' }>): Promise<void> {
    const { call, network, payment, terms, identity, storeId } = message
    const verified = await settlerOf(network).verify(payment, terms, identity, { storeId })
    if (!verified.ok) return end({ type: 'verified', call, refusal: verified })
    if (isLost) return verified.hold.release()
    held.set(call, { hold: verified.hold, identity })
    end({ type: 'verified', call, refusal: null })
  }

  async function settle(message: Extract<FromWorker, { type: 'settle' }>): Promise<void> {
    const { call, network, payment, terms } = message
    const verified = take(message.held)
    const identity = verified?.identity ?? message.identity
    let turn = 0
    const store = (attempt: Extract<FromPrimary, { type: 'store' }>['attempt']) =>
      new Promise<boolean>((resolve) => {
        if (isLost) return resolve(false)
        storing.set(call, { turn: ++turn, transaction: attempt.transaction, resolve })
        say({ type: 'store', call, turn, attempt })
      })
    const outcome = await settlerOf(network).settle(payment, terms, identity, store, verified?.hold)
    storing.delete(call)
    end({ type: 'settled', call, outcome })
  }

  function say(message: Extract<FromPrimary, { type: 'store' }>): void {
    const question = questions.get(message.call)
    if (question !== undefined) question.said = message
    send(message)
  }

  function end(
    message: Extract<FromPrimary, { type: 'verified' | 'settled' | 'broken' | 'forgotten' }>,
  ): void {
    const nowMs = performance.now()
    const question = questions.get(message.call)
    if (question !== undefined) Object.assign(question, { said: message, endedMs: nowMs })
    for (const [call, { endedMs }] of questions) {
      if (endedMs === undefined || endedMs > nowMs - keptMs) break
      questions.delete(call)
    }
    send(message)
  }

  /** Whether it was asked before: then it is told again what was said, if anything was. */
  function isKnown(call: number): boolean {
    const known = questions.get(call)
    if (known === undefined) {
      if (keptMs > 0) questions.set(call, {})
      return false
    }
    if (known.said !== undefined) send(known.said)
    return true
  }

  function take(call: number | undefined): Held | undefined {
    const one = call === undefined ? undefined : held.get(call)
    if (call !== undefined) held.delete(call)
    return one
  }

  /** Runs an answer to a question; what breaks is told. */
  function answer(call: number, work: Promise<void>): true {
    work.catch((error: unknown) => {
      end({ type: 'broken', call, message: error instanceof Error ? error.message : String(error) })
    })
    return true
  }

  return {
    receive(message) {
      switch (message.type) {
        case 'verify':
          return isKnown(message.call) || answer(message.call, verify(message))
        case 'settle':
          if (isKnown(message.call)) return true
          if (message.turn === undefined) return answer(message.call, settle(message))
          end({ type: 'forgotten', call: message.call })
          return true
        case 'release':
          take(message.held)?.hold.release()
          return true
        case 'stored': {
          const { call, turn, transaction, ok } = message
          const one = storing.get(call)
          // What is said of bytes that others have taken the place of says nothing of these.
          if (one?.turn !== turn || one.transaction !== transaction) return true
          storing.delete(call)
          const question = questions.get(call)
          if (question !== undefined) delete question.said
          one.resolve(ok)
          return true
        }
        default:
          return false
      }
    },
    lost() {
      isLost = true
      for (const { resolve } of storing.values()) resolve(false)
      storing.clear()
      for (const { hold } of held.values()) hold.release()
      held.clear()
    },
  }
}
