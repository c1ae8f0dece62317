import type { NetworkId } from '../../core/domain/network.ts'
import type { PastVerdict } from '../../core/ports/chains/pastSettlements.ts'
import type { Log } from '../../core/ports/log.ts'
import { isRpcError } from '../../core/rpc/rpcError.ts'

/** A look at the past in which what nodes do wrong is a verdict; what the books do wrong is the caller's. */
export async function unlessUnavailable(
  network: NetworkId,
  log: Log,
  look: () => Promise<PastVerdict>,
): Promise<PastVerdict> {
  try {
    return await look()
  } catch (error) {
    if (!isRpcError(error)) throw error
    log.warn({ err: error, network }, 'what was settled could not be looked up')
    return { status: 'unavailable', message: error.message }
  }
}
