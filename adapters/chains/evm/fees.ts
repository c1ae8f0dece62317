import type { Head } from './head.ts'

export interface FeeCaps {
  /** Most that a unit of gas may cost, in wei. */
  readonly maxFeePerGasWei: bigint
  /** Tip for the block's builder, in wei a unit of gas. */
  readonly maxPriorityFeePerGasWei: bigint
}

export interface Fees {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
}

/**
 * Fees of a transaction that should get into one of the next blocks: twice the base fee, which is as far as it can rise
 * in six full blocks (EIP-1559, 12.5 % a block), and never above the cap.
 *
 * @returns undefined when even the next block costs more than the cap
 */
export function feesFor(head: Head, caps: FeeCaps): Fees | undefined {
  const cap = caps.maxFeePerGasWei
  const tip = smaller(caps.maxPriorityFeePerGasWei, cap)
  if (head.baseFee + tip > cap) return undefined
  return { maxFeePerGas: smaller(head.baseFee * 2n + tip, cap), maxPriorityFeePerGas: tip }
}

function smaller(a: bigint, b: bigint): bigint {
  if (a < b) return a
  return b
}
