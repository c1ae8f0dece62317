import type { Decoded } from '../effects/decoded.ts'
import type { ChainAccount } from './chainOf.ts'

/** What a signature of a test chain means where its key also holds real money. */
export interface SharedKeyRisk {
  /** Why no rule may approve it. */
  readonly reasons: readonly string[]
  readonly warnings: readonly string[]
}

const none: SharedKeyRisk = { reasons: [], warnings: [] }

/**
 * Whether a request of a test chain could be used where money is real. A rule for a test chain is written for play money,
 * so it must not approve one. EVM transactions, and typed data with a chain in its domain, are bound to their chain by
 * their own bytes (EIP-155, EIP-712); anything on Solana and any message is not.
 */
export function sharedKeyRisk({ facts, isShared }: ChainAccount, decoded: Decoded): SharedKeyRisk {
  if (!isShared) return none
  const isBound = facts.family === 'eip155' && decoded.kind !== 'message' && !decoded.isOpaque
  if (isBound) return none
  return {
    reasons: [`The key that signs for ${facts.title} here also holds real money.`],
    warnings: [
      `What is signed here may be used where money is real, too: ${decoded.from} is not an address of ${facts.title} alone.`,
    ],
  }
}
