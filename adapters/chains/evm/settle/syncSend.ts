import { type Receipt, readReceipt } from '../../../../core/evm/transferProof.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import { type BroadcastResult, broadcast, readRefusal } from './broadcast.ts'

const method = 'eth_sendRawTransactionSync'
/**
 * Requests that a node holds open for us at once; more transactions are sent the ordinary way. Half as many each time that
 * it does not answer one, which is how a provider says that it is too many. One that counts connections has room for reads as well.
 */
const MAX_AT_ONCE = 32
/** How long an answer to the probe counts, and after how long a node that could not be asked is asked again. */
const ASK_AGAIN_MS = 600_000
const RETRY_MS = 30_000

export interface SyncSendOptions {
  readonly rpc: Rpc
  readonly clock: Clock
  readonly log: Log
}

/** What came of a transaction: its receipt, not judged yet, or how the node took it. */
export type SyncAnswer = { readonly receipt: Receipt } | BroadcastResult

/**
 * Broadcast and receipt in one request, where the node has it. Whatever else than a receipt it answers says nothing
 * against the transaction: its bytes are sent the ordinary way, or looked for by their hash. Nothing new is ever signed.
 *
 * @see https://eips.ethereum.org/EIPS/eip-7966
 */
export interface SyncSend {
  /** Asks the node whether it has the method; before that nothing is sent this way. Never rejects. */
  probe(): Promise<void>
  /** Undefined when the ordinary way has to be taken: the node lacks it, or holds enough requests. Never rejects. */
  send(bytes: string, transaction: string, waitMs: number): Promise<SyncAnswer> | undefined
}

export function createSyncSend({ rpc, clock, log }: SyncSendOptions): SyncSend {
  let isThere = false
  let askedAtMs = Number.POSITIVE_INFINITY
  let againMs = RETRY_MS
  let open = 0
  let most = MAX_AT_ONCE

  /** Bytes that are no transaction: a node that has the method says that, one that lacks it says that it does. */
  const probe = async (): Promise<void> => {
    askedAtMs = clock.now()
    againMs = RETRY_MS
    try {
      await rpc.call(method, '0x')
      isThere = false
    } catch (error) {
      isThere = error instanceof RpcRefused && !lacksMethod(error)
      if (!(error instanceof RpcRefused)) return
    }
    againMs = ASK_AGAIN_MS
    log.debug({ isThere }, `the node was asked for ${method}`)
  }

  const send = async (bytes: string, transaction: string, waitMs: number): Promise<SyncAnswer> => {
    open++
    try {
      const answer = await rpc.callWithin(waitMs, method, bytes)
      if (most < MAX_AT_ONCE) most++
      const receipt = readReceipt(answer, transaction)
      return receipt === undefined
        ? { taken: 'unknown', message: 'it is no receipt of this one' }
        : { receipt }
    } catch (error) {
      if (!(error instanceof RpcRefused)) {
        most = Math.max(1, most >> 1)
        return { taken: 'unknown', message: String(error) }
      }
      // By the EIP, code 4 says that it is in the pool; a proxy's own timeout reads alike and says nothing.
      if (error.code === 4 || /time(d )?out/i.test(error.message)) {
        return { taken: 'unknown', message: error.message }
      }
      if (lacksMethod(error)) isThere = false
      const read = readRefusal(error)
      return read.taken === 'refused' ? broadcast(rpc, bytes) : read
    } finally {
      open--
    }
  }

  return {
    probe,
    send(bytes, transaction, waitMs) {
      if (Math.abs(clock.now() - askedAtMs) >= againMs && askedAtMs !== Number.POSITIVE_INFINITY) void probe()
      return isThere && open < most ? send(bytes, transaction, waitMs) : undefined
    },
  }
}

/** JSON-RPC 2.0 (-32601) and EIP-1474 (-32004), and what providers write who allow some methods only. */
const lacksMethod = ({ code, message }: RpcRefused): boolean =>
  code === -32601 ||
  code === -32004 ||
  /method.*not|not.*(?:support|avail|allow|found|implement)|unsupported|unknown method|whitelist/i.test(
    message,
  )
