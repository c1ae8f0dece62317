import type { NetworkId } from '../../../core/domain/network.ts'
import type { Chains } from '../../../core/plugin/ports.ts'
import type { FromPrimary, FromWorker } from './messages.ts'

/** The primary's end for one worker: settles what it asks for, one account nonce queue for all workers. */
export interface WorkerSettling {
  receive(message: FromWorker): boolean
  /** The worker is gone: what waits for its store gets a no, so nothing of it is broadcast. */
  lost(): void
}

export function createWorkerSettling(chains: Chains, send: (message: FromPrimary) => void): WorkerSettling {
  const storing = new Map<number, (ok: boolean) => void>()

  async function settle(message: Extract<FromWorker, { type: 'settle' }>): Promise<void> {
    const { call, network, payment, terms, identity } = message
    try {
      const settler = chains.settler(network as NetworkId)
      if (settler === undefined) throw new Error(`${network} is not configured`)
      const outcome = await settler.settle(payment, terms, identity, (attempt) => {
        return new Promise((resolve) => {
          storing.set(call, resolve)
          send({ type: 'store', call, attempt })
        })
      })
      send({ type: 'settled', call, outcome })
    } catch (error) {
      send({ type: 'broken', call, message: error instanceof Error ? error.message : String(error) })
    }
  }

  return {
    receive(message) {
      if (message.type === 'settle') {
        void settle(message)
        return true
      }
      if (message.type !== 'stored') return false
      storing.get(message.call)?.(message.ok)
      storing.delete(message.call)
      return true
    },
    lost() {
      for (const resolve of storing.values()) resolve(false)
      storing.clear()
    },
  }
}
