import type { Head } from '../rpc/head.ts'

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

/** A node takes no transaction whose highest cost the account does not have; each takes this part of what is left. */
const shares = 16n

/**
 * Fees of a transaction that has to get into a block however the base fee rises: signed up to the operator's cap, and paid
 * is the base fee and the tip only (EIP-1559). A transaction can't be replaced by another one for its payment, so one
 * that was signed for too little would hold up its account nonce, and every later one, until the fee falls. An account
 * that has too little for the cap signs what it can back, but never less than twice the base fee.
 *
 * @param spareWei what the account has beyond the highest cost of its transactions under way
 * @returns undefined when even the next block costs more than the cap
 */
export function feesFor(head: Head, caps: FeeCaps, spareWei: bigint, gas: number): Fees | undefined {
  const cap = caps.maxFeePerGasWei
  const tip = smaller(caps.maxPriorityFeePerGasWei, cap)
  if (head.baseFee + tip > cap) return undefined
  const least = leastFee(head, caps)
  const share = spareWei / (shares * BigInt(gas))
  return { maxFeePerGas: smaller(cap, share > least ? share : least), maxPriorityFeePerGas: tip }
}

/** Twice the base fee, which is as far as it can rise in six full blocks (12.5 % a block), and the tip; up to the cap. */
export const leastFee = (head: Head, caps: FeeCaps): bigint =>
  smaller(caps.maxFeePerGasWei, head.baseFee * 2n + caps.maxPriorityFeePerGasWei)

/** How many settlements the account pays for, each at the least that it is signed for now. */
export const paymentsAhead = (head: Head, options: FeeCaps & { readonly maxGas: number }): bigint =>
  head.balance / (BigInt(options.maxGas) * leastFee(head, options))

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b)
