import { quantity } from '../../../../core/evm/quantity.ts'
import type { Receipt } from '../../../../core/evm/transferProof.ts'
import type { MostFees } from './mostFees.ts'

/**
 * What one of so many payments of a transaction has cost, in wei; rollups add what its bytes cost on the chain below (`l1Fee`).
 *
 * @param most what a node says beyond it is not believed: one receipt would use up a store's day
 * @returns undefined when the node leaves it out, or says what can't be
 */
export function costOf(receipt: Receipt, payments: number, most: MostFees): bigint | undefined {
  const { gasUsed, effectiveGasPrice, l1Fee = '0x0' } = receipt as unknown as Record<string, unknown>
  try {
    const [here, below] = [quantity(gasUsed) * quantity(effectiveGasPrice), quantity(l1Fee)]
    if (here > most.hereWei || below > most.belowWei) return undefined
    return (here + below + BigInt(payments) - 1n) / BigInt(payments)
  } catch {
    return undefined
  }
}
