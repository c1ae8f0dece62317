import { quantity } from '../../../../core/evm/quantity.ts'
import type { Receipt } from '../../../../core/evm/transferProof.ts'

/**
 * What one of so many payments of a transaction has cost, in wei; rollups add what its bytes cost on the chain below (`l1Fee`).
 *
 * @returns undefined when the node leaves it out
 */
export function costOf(receipt: Receipt, payments: number): bigint | undefined {
  const { gasUsed, effectiveGasPrice, l1Fee = '0x0' } = receipt as unknown as Record<string, unknown>
  try {
    const all = quantity(gasUsed) * quantity(effectiveGasPrice) + quantity(l1Fee)
    return (all + BigInt(payments) - 1n) / BigInt(payments)
  } catch {
    return undefined
  }
}
