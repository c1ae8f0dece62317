import type { NetworkId } from '../../../../core/domain/network.ts'
import type { Payers } from '../../../../core/ports/chains/payers.ts'
import { type Clock, systemClock } from '../../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../../core/ports/log.ts'
import { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import { tokenAccountOf } from '../../../../core/solana/tokenAccountOf.ts'
import { createSolanaRpc, type WithContext } from '../rpc/createSolanaRpc.ts'

export interface SolanaPayersOptions {
  readonly network: NetworkId
  /** Asked in this order; at least one. */
  readonly rpcUrls: readonly string[]
  /** Limit of one request to a node, in ms. Default 5,000. */
  readonly rpcTimeoutMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/** Looks at payers on one Solana network: the latest block hash and a balance, in one request to a node that takes batches. */
export function createSolanaPayers(options: SolanaPayersOptions): Payers {
  const { network, rpcUrls, rpcTimeoutMs = 5_000, clock = systemClock, log = silentLog } = options
  const genesis = network.slice('solana:'.length)
  const rpc = createSolanaRpc({ urls: rpcUrls, genesis, timeoutMs: rpcTimeoutMs, clock, log })
  const commitment = 'confirmed'
  return {
    async look(asset, address) {
      const [block, account] = await rpc.many<WithContext<Block & Balance>>([
        { method: 'getLatestBlockhash', params: [{ commitment }] },
        { method: 'getTokenAccountBalance', params: [tokenAccountOf(address, asset), { commitment }] },
      ])
      const recentBlockhash = block?.ok === true ? block.result.value?.blockhash : undefined
      const balanceAtomic =
        account?.ok === true ? readAmount(account.result.value?.amount) : noneIf(account?.error)
      if (typeof recentBlockhash === 'string' && balanceAtomic !== undefined)
        return { recentBlockhash, balanceAtomic }
      log.warn({ network }, 'no node says what a payer has')
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

/** A node refuses to tell the balance of an account that is not there. */
const noneIf = (error: unknown): bigint | undefined => (error instanceof RpcRefused ? 0n : undefined)
