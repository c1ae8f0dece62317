import type { NetworkId } from '../../../../core/domain/network.ts'
import type { Payers } from '../../../../core/ports/chains/payers.ts'
import { type Clock, systemClock } from '../../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../../core/ports/log.ts'
import { RpcRefused } from '../../../../core/rpc/post.ts'
import { tokenAccountOf } from '../../../../core/solana/tokenAccount.ts'
import { createSolanaRpc, type WithContext } from '../rpc/nodes.ts'

export interface SolanaPayersOptions {
  readonly network: NetworkId
  /** Nodes in the order in which they are tried, at least one. */
  readonly rpcUrls: readonly string[]
  /** Timeout of one request to a node, in ms. Default 5,000. */
  readonly rpcTimeoutMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Reads a payer's state on one Solana network, which is the latest block hash and a balance. A node that accepts batches gets one
 * request for both.
 */
export function createSolanaPayers(options: SolanaPayersOptions): Payers {
  const { network, rpcUrls, rpcTimeoutMs = 5_000, clock = systemClock, log = silentLog } = options
  const genesis = network.slice('solana:'.length)
  const rpc = createSolanaRpc({ urls: rpcUrls, genesis, timeoutMs: rpcTimeoutMs, clock, log })
  const commitment = 'confirmed'
  return {
    async read(asset, address) {
      const [block, account] = await rpc.many<WithContext<Block & Balance>>([
        { method: 'getLatestBlockhash', params: [{ commitment }] },
        { method: 'getTokenAccountBalance', params: [tokenAccountOf(address, asset), { commitment }] },
      ])
      const recentBlockhash = block?.ok === true ? block.result.value?.blockhash : undefined
      const balanceAtomic =
        account?.ok === true ? readAmount(account.result.value?.amount) : noneIf(account?.error)
      if (typeof recentBlockhash === 'string' && balanceAtomic !== undefined)
        return { recentBlockhash, balanceAtomic }
      log.warn({ network }, 'no node returned the balance of a payer')
      return undefined
    },
  }
}

interface Block {
  readonly blockhash?: unknown
}

interface Balance {
  readonly amount?: unknown
}

const readAmount = (amount: unknown): bigint | undefined =>
  typeof amount === 'string' && /^\d{1,20}$/.test(amount) ? BigInt(amount) : undefined

/** The balance of a missing account is 0, because a node refuses to return it. */
const noneIf = (error: unknown): bigint | undefined => (error instanceof RpcRefused ? 0n : undefined)
