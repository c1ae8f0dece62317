import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import type { Hold, SettleOutcome, Settler, Verified } from '../../../core/ports/settler.ts'
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
}

interface Waiting<T> {
  readonly resolve: (value: T) => void
  readonly reject: (error: Error) => void
}

/** @param send to the primary; a worker whose primary is gone ends itself, so no question stays open */
export function createPrimarySettling(send: (message: FromWorker) => void): PrimarySettling {
  const verifying = new Map<number, Waiting<Verified>>()
  const settling = new Map<number, Waiting<SettleOutcome>>()
  const stores = new Map<number, (attempt: SettlementAttempt) => Promise<boolean>>()
  /** What the primary holds for this worker, by the number of the question. */
  const heldAs = new WeakMap<Hold, number>()
  let last = 0

  const verify =
    (network: string): Settler['verify'] =>
    (payment, terms, identity, { storeId }) =>
      new Promise((resolve, reject) => {
        const call = ++last
        verifying.set(call, { resolve, reject })
        send({ type: 'verify', call, network, payment, terms, identity, storeId })
      })

  const settle =
    (network: string): Settler['settle'] =>
    (payment, terms, identity, store, hold) =>
      new Promise((resolve, reject) => {
        const call = ++last
        settling.set(call, { resolve, reject })
        stores.set(call, store)
        const held = hold === undefined ? undefined : heldAs.get(hold)
        // From here on it is the settlement's.
        if (hold !== undefined) heldAs.delete(hold)
        send({ type: 'settle', call, network, payment, terms, identity, ...(held !== undefined && { held }) })
      })

  function holdOf(held: number): Hold {
    const hold: Hold = {
      release() {
        if (heldAs.delete(hold)) send({ type: 'release', held })
      },
    }
    heldAs.set(hold, held)
    return hold
  }

  async function storeHere(call: number, attempt: SettlementAttempt): Promise<void> {
    // A store that can't say is a no: nothing is broadcast then.
    const ok =
      (await stores
        .get(call)?.(attempt)
        .catch(() => false)) ?? false
    send({ type: 'stored', call, ok })
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
          end(verifying, call)?.resolve(refusal ?? { ok: true, hold: holdOf(call) })
          return true
        }
        case 'store':
          void storeHere(message.call, message.attempt)
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
        default:
          return false
      }
    },
  }
}
