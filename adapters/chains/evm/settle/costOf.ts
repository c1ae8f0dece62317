import { LRUCache } from 'lru-cache'
import { quantity } from '../../../../core/evm/quantity.ts'
import type { Receipt } from '../../../../core/evm/transferProof.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { limitsOf } from './signTransaction.ts'

/** What no transaction goes beyond of which the signed bytes are forgotten. */
type Highest = Pick<Required<EvmSettlerOptions>, 'maxGas' | 'maxFeePerGasWei'>

/**
 * What one of so many payments of a transaction has cost, in wei; rollups add what its bytes cost on the chain below (`l1Fee`). What a
 * node says beyond what was signed is not believed: one receipt would use up a store's day. For its bytes below, of which nobody signs a
 * limit, that is no more than its gas may cost at the operator's highest price.
 *
 * @param bytes as signed; empty where they are forgotten
 * @returns undefined when the node leaves it out, or says what can't be
 */
export function costOf(
  receipt: Receipt,
  payments: number,
  bytes: string,
  { maxGas, maxFeePerGasWei }: Highest,
): bigint | undefined {
  const { gasUsed, effectiveGasPrice, l1Fee = '0x0' } = receipt as unknown as Record<string, unknown>
  const { gas, maxFeePerGas } = signedIn(bytes) ?? { gas: BigInt(maxGas), maxFeePerGas: maxFeePerGasWei }
  try {
    const [here, below] = [quantity(gasUsed) * quantity(effectiveGasPrice), quantity(l1Fee)]
    if (here > gas * maxFeePerGas || below > gas * maxFeePerGasWei) return undefined
    return (here + below + BigInt(payments) - 1n) / BigInt(payments)
  } catch {
    return undefined
  }
}

/** The payments of one transaction ask one after the other. */
const known = new LRUCache<string, NonNullable<ReturnType<typeof limitsOf>>>({ max: 64 })

function signedIn(bytes: string): ReturnType<typeof limitsOf> {
  let signed = known.get(bytes)
  if (signed === undefined && (signed = limitsOf(bytes)) !== undefined) known.set(bytes, signed)
  return signed
}
