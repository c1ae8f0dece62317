import type { NetworkId } from '../../../core/domain/network.ts'
import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import type { Chains } from '../../../core/ports/chains.ts'
import type { Hold, Settler } from '../../../core/ports/settler.ts'
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

export function createWorkerSettling(chains: Chains, send: (message: FromPrimary) => void): WorkerSettling {
  const storing = new Map<number, (ok: boolean) => void>()
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
    if (!verified.ok) return send({ type: 'verified', call, refusal: verified })
    if (isLost) return verified.hold.release()
    held.set(call, { hold: verified.hold, identity })
    send({ type: 'verified', call, refusal: null })
  }

  async function settle(message: Extract<FromWorker, { type: 'settle' }>): Promise<void> {
    const { call, network, payment, terms } = message
    const verified = take(message.held)
    const identity = verified?.identity ?? message.identity
    const store = (attempt: Extract<FromPrimary, { type: 'store' }>['attempt']) =>
      new Promise<boolean>((resolve) => {
        if (isLost) return resolve(false)
        storing.set(call, resolve)
        send({ type: 'store', call, attempt })
      })
    const outcome = await settlerOf(network).settle(payment, terms, identity, store, verified?.hold)
    storing.delete(call)
    send({ type: 'settled', call, outcome })
  }

  function take(call: number | undefined): Held | undefined {
    const one = call === undefined ? undefined : held.get(call)
    if (call !== undefined) held.delete(call)
    return one
  }

  /** Runs an answer to a question; what breaks is told. */
  function answer(call: number, work: Promise<void>): true {
    work.catch((error: unknown) => {
      send({ type: 'broken', call, message: error instanceof Error ? error.message : String(error) })
    })
    return true
  }

  return {
    receive(message) {
      switch (message.type) {
        case 'verify':
          return answer(message.call, verify(message))
        case 'settle':
          return answer(message.call, settle(message))
        case 'release':
          take(message.held)?.hold.release()
          return true
        case 'stored':
          storing.get(message.call)?.(message.ok)
          storing.delete(message.call)
          return true
        default:
          return false
      }
    },
    lost() {
      isLost = true
      for (const resolve of storing.values()) resolve(false)
      storing.clear()
      for (const { hold } of held.values()) hold.release()
      held.clear()
    },
  }
}
