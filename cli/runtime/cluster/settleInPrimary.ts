import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import type { SettleOutcome, Settler } from '../../../core/ports/settler.ts'
import type { FromPrimary, FromWorker } from './messages.ts'

/** The worker's end: settlers whose `settle` happens in the primary. */
export interface PrimarySettling {
  /** Checks and verifies here, settles there: one process has the key's account nonces. */
  wrap(settler: Settler): Settler
  /** Takes a message of the primary; false when it is about something else. */
  receive(message: FromPrimary): boolean
}

interface Waiting {
  readonly store: (attempt: SettlementAttempt) => Promise<boolean>
  readonly resolve: (outcome: SettleOutcome) => void
  readonly reject: (error: Error) => void
}

/** @param send to the primary; a worker whose primary is gone ends itself, so no question stays open */
export function createPrimarySettling(send: (message: FromWorker) => void): PrimarySettling {
  const open = new Map<number, Waiting>()
  let last = 0

  const settle =
    (network: string): Settler['settle'] =>
    (payment, terms, identity, store) =>
      new Promise((resolve, reject) => {
        const call = ++last
        open.set(call, { store, resolve, reject })
        send({ type: 'settle', call, network, payment, terms, identity })
      })

  async function storeHere(call: number, attempt: SettlementAttempt): Promise<void> {
    // A store that can't say is a no: nothing is broadcast then.
    const ok =
      (await open
        .get(call)
        ?.store(attempt)
        .catch(() => false)) ?? false
    send({ type: 'stored', call, ok })
  }

  function end(call: number): Waiting | undefined {
    const waiting = open.get(call)
    open.delete(call)
    return waiting
  }

  return {
    wrap: (settler) =>
      Object.create(settler, {
        settle: { value: settle(settler.network) },
        start: { value: async () => undefined },
      }) as Settler,
    receive(message) {
      switch (message.type) {
        case 'store':
          void storeHere(message.call, message.attempt)
          return true
        case 'settled':
          end(message.call)?.resolve(message.outcome)
          return true
        case 'broken':
          end(message.call)?.reject(new Error(message.message))
          return true
        default:
          return false
      }
    },
  }
}
