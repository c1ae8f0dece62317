import { LRUCache } from 'lru-cache'
import type { EvmSettlerOptions } from '../options.ts'
import { limitsOf } from './signTransaction.ts'

/** Most that a transaction can have cost, in wei. */
export interface MostFees {
  /** For its gas: the chain takes no more than was signed. */
  readonly hereWei: bigint
  /** For its bytes on the chain below, which nobody signs a limit of: no more than its gas may cost at the operator's highest price. */
  readonly belowWei: bigint
}

/** Most that signed bytes can have cost; of bytes that are forgotten, what one payment is signed for at most. */
export function mostFees(
  bytes: string,
  { maxGas, maxFeePerGasWei }: Pick<Required<EvmSettlerOptions>, 'maxGas' | 'maxFeePerGasWei'>,
): MostFees {
  let signed = known.get(bytes)
  if (signed === undefined && (signed = limitsOf(bytes)) !== undefined) known.set(bytes, signed)
  const { gas, maxFeePerGas } = signed ?? { gas: BigInt(maxGas), maxFeePerGas: maxFeePerGasWei }
  return { hereWei: gas * maxFeePerGas, belowWei: gas * maxFeePerGasWei }
}

/** The payments of one transaction ask one after the other. */
const known = new LRUCache<string, NonNullable<ReturnType<typeof limitsOf>>>({ max: 64 })
