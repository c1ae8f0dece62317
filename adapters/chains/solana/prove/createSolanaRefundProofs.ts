import { base58 } from '@scure/base'
import type { NetworkId } from '../../../../core/domain/network.ts'
import { type Clock, systemClock } from '../../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../../core/ports/log.ts'
import type { RefundProofs, RefundVerdict, TransferBack } from '../../../../core/ports/refundProofs.ts'
import { readWireTransaction } from '../../../../core/solana/wire.ts'
import type { Commitment } from '../check/simulate.ts'
import { createSolanaRpc } from '../rpc/createSolanaRpc.ts'
import { askStatuses, hasReached } from '../settle/confirm.ts'
import { judgeRefund, type LandedMeta } from './judgeRefund.ts'

export interface SolanaRefundProofsOptions {
  readonly network: NetworkId
  /** Asked in this order; at least one. */
  readonly rpcUrls: readonly string[]
  /** When a transfer counts; the settlers' own. Default `confirmed`. */
  readonly commitment?: Commitment
  /** Limit of one request to a node, in ms. Default 10,000. */
  readonly rpcTimeoutMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/** Makes the proof of refunds on one Solana network: two requests, where both transactions stand and what the refund did. */
export function createSolanaRefundProofs(options: SolanaRefundProofsOptions): RefundProofs {
  const { network, rpcUrls, commitment = 'confirmed', rpcTimeoutMs = 10_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const genesis = network.slice('solana:'.length)
  const rpc = createSolanaRpc({ urls: rpcUrls, genesis, timeoutMs: rpcTimeoutMs, clock, log })

  const unavailable = (message: string): RefundVerdict => ({ status: 'unavailable', message })

  /** @throws {RpcUnreachable} {RpcRefused} when no node can say */
  async function look(expected: TransferBack): Promise<RefundVerdict> {
    const { transaction, saleTransaction } = expected
    const { value } = await askStatuses(rpc, [transaction, saleTransaction], true)
    const [refund, sale] = value
    if (refund == null) return { status: 'not_found' }
    if (!hasReached(refund, commitment)) return { status: 'not_final' }
    if (refund.err !== null) return { status: 'reverted' }
    if (sale == null) {
      return unavailable(`The nodes of ${network} do not know the sale's transaction ${saleTransaction}.`)
    }
    const landed = await rpc.call<Landed | null>('getTransaction', transaction, {
      encoding: 'base64',
      commitment,
      maxSupportedTransactionVersion: 0,
    })
    // The node that answered this question may be behind the one that answered the first.
    if (landed === null) return { status: 'not_final' }
    const wire = readWireTransaction(Buffer.from(landed.transaction[0], 'base64'))
    const isThis = wire !== undefined && base58.encode(wire.signatures[0]!) === transaction
    const verdict =
      isThis && landed.meta?.err === null ? judgeRefund(wire.message, landed.meta, expected) : undefined
    if (verdict === undefined)
      return unavailable(`The nodes of ${network} do not tell what ${transaction} did.`)
    // Within one slot their order is not told; nobody is paid back in the very slot of the sale.
    const isLater = refund.slot > sale.slot
    return verdict.status === 'proved' && !isLater ? { status: 'mismatch', what: 'order' } : verdict
  }

  return {
    async prove(expected) {
      try {
        return await look(expected)
      } catch (err) {
        log.warn({ err, network, transaction: expected.transaction }, 'a refund could not be looked up')
        return unavailable(`No node of ${network} answers now.`)
      }
    },
  }
}

interface Landed {
  /** The transaction, and its encoding. */
  readonly transaction: readonly [string, string]
  readonly meta: (LandedMeta & { readonly err: unknown }) | null
}
