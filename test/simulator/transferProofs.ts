import type {
  FoundTransfer,
  TransferProofs,
  TransferVerdict,
  WantedTransfer,
} from '../../core/ports/chains/transferProofs.ts'
import type { Chain, Landed, View } from './chain.ts'
import type { Scheduler } from './scheduler.ts'
import type { ChainFaults } from './settler.ts'

/** What one process's nodes say of plain transfers on the simulated chain: nothing now and then, or of some blocks ago. */
export function createSimulatedTransferProofs(
  chain: Chain,
  scheduler: Scheduler,
  faults: ChainFaults,
): TransferProofs {
  const fails = (probability: number) => faults.isFaulty && scheduler.chance(probability)

  async function ask(what: (view: View) => TransferVerdict): Promise<TransferVerdict> {
    await scheduler.wait(scheduler.between(20, 100))
    if (fails(0.06)) return { status: 'unavailable', message: 'The node did not answer.' }
    return what(chain.view(fails(0.15) ? scheduler.between(1, 4) : 0))
  }

  const fitting = (moved: Iterable<[string, Landed]>, wanted: WantedTransfer): FoundTransfer[] =>
    [...moved].flatMap(([key, { hash: transaction, event, block, payer: from, value }]) => {
      const atMs = chain.timestampOf(block)
      if (BigInt(value) !== wanted.amountAtomic || atMs < wanted.notBeforeMs) return []
      return [{ key, nonce: key, transaction, event, from, amountAtomic: wanted.amountAtomic, block, atMs }]
    })

  return {
    prove: (wanted, transaction) =>
      ask(({ number, receipts }) => {
        const receipt = receipts.get(transaction)
        if (receipt === undefined) return { status: 'pending', transaction, isKnown: false, seenUpTo: number }
        const transfers = fitting(receipt.moved, wanted)
        if (transfers.length > 0) return { status: 'found', transfers }
        return { status: 'mismatch', what: receipt.moved.size === 0 ? 'failed' : 'amount' }
      }),
    find: (wanted) =>
      ask(({ landed }) => {
        const transfers = fitting(landed, wanted)
        return transfers.length > 0 ? { status: 'found', transfers } : { status: 'none', isComplete: true }
      }),
  }
}
