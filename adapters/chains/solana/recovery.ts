import { base58 } from '@scure/base'
import { LRUCache } from 'lru-cache'
import type { PaymentRecord, SettlementAttempt } from '../../../core/domain/payment.ts'
import type { SettleOutcome, Settler } from '../../../core/ports/settler.ts'
import { readMessage } from '../../../core/solana/message.ts'
import { readWireTransaction, type WireTransaction } from '../../../core/solana/wire.ts'
import type { FailureBudget } from '../failureBudget.ts'
import { broadcast } from './broadcast.ts'
import { createSolanaChainReader } from './chainReader.ts'
import { askStatuses, hasReached } from './confirm.ts'
import { isSelfPaid } from './cosign.ts'
import { createOpenStatuses } from './openStatuses.ts'
import type { ReadOptions } from './options.ts'
import { reasons } from './reasons.ts'
import type { Rpc, WithContext } from './rpc.ts'
import { RpcRefused, rpcCodes } from './rpcError.ts'
import { failedOnChain } from './settlement.ts'

/** Open payments whose last thorough look is remembered; the others are looked at thoroughly each time. */
const maxRemembered = 10_000
/** For nodes that do not say how far their history goes: how long every node's is assumed to, in ms. */
const assumedHistoryMs = 3_600_000

export interface RecoveryParts {
  readonly options: ReadOptions
  readonly rpc: Rpc
  readonly budget: FailureBudget
}

/** Finds out what became of stored attempts. */
export type Recovery = Pick<Settler, 'recover' | 'stillOnChain'>

/**
 * A transaction is never replaced, so there are three answers: it is in a block; it still can get there, and the same
 * bytes are sent again; or its block hash is out of use in finalized blocks and it is in none of them.
 */
export function createRecovery({ options, rpc, budget }: RecoveryParts): Recovery {
  const { commitment, clock, log, lookAgainMs } = options
  const openStatuses = createOpenStatuses(rpc, clock)
  /** One whose fee the payer pays may land by another signature of the payer's: it is known by its message. */
  const reader = createSolanaChainReader({
    network: options.network,
    rpc,
    commitment,
    lookAgainMs: 0,
    clock,
    log,
  })
  /** When a transaction that is not on chain was last sent again, or judged. */
  const lookedAtMs = new LRUCache<string, number>({ max: maxRemembered })

  const isValid = (blockhash: string, at: 'processed' | 'confirmed' | 'finalized') =>
    rpc.call<WithContext<boolean>>('isBlockhashValid', blockhash, { commitment: at })

  /** Whether the node's history reaches back to before the payment was claimed, so that "not found" means something. */
  const hasHistory = async ({ claimedAtMs }: PaymentRecord): Promise<boolean> => {
    try {
      const slot = await rpc.call<number>('getFirstAvailableBlock')
      const seconds = await rpc.call<number | null>('getBlockTime', slot)
      return seconds !== null && seconds * 1000 < claimedAtMs
    } catch (error) {
      if (!(error instanceof RpcRefused)) throw error
      if (error.rpcCode !== rpcCodes.methodNotFound) return false
      return Math.abs(clock.now() - claimedAtMs) < assumedHistoryMs
    }
  }

  /**
   * True when no block can take the transaction any more, and none has. The order of the questions is the proof: first
   * the hash is out of use at a finalized slot, then a node that has seen that slot does not know the transaction. A hash
   * that is too new for finalized blocks is out of use there as well, hence the second question and the clock.
   */
  const isGone = async (record: PaymentRecord, blockhash: string, signature: string): Promise<boolean> => {
    if (clock.now() < record.validBeforeMs) return false
    const confirmed = await isValid(blockhash, 'confirmed')
    const finalized = await isValid(blockhash, 'finalized')
    if (confirmed.value !== false || finalized.value !== false) return false
    const { context, value } = await askStatuses(rpc, [signature], true)
    if (value[0] !== null || context.slot < finalized.context.slot) return false
    return hasHistory(record)
  }

  const recoverAttempt = async (
    record: PaymentRecord,
    attempt: SettlementAttempt,
  ): Promise<SettleOutcome> => {
    const { transaction, bytes } = attempt
    const pending: SettleOutcome = { status: 'pending', transaction, reason: reasons.pending }
    const status = await openStatuses.of(transaction)
    if (status !== null) {
      if (!hasReached(status, commitment)) return pending
      openStatuses.forget(transaction)
      if (status.err === null) return { status: 'settled', transaction }
      budget.note(record.payer)
      return failedOnChain(transaction, { err: status.err })
    }
    const sinceMs = lookedAtMs.get(transaction)
    if (sinceMs !== undefined && Math.abs(clock.now() - sinceMs) < lookAgainMs) return pending
    const wire = wireOf(bytes)
    const blockhash = blockhashOf(wire)
    if (wire !== undefined && isSelfPaid(wire)) {
      const found = await reader.recover(record)
      if (found.status !== 'pending') {
        openStatuses.forget(transaction)
        // The seller has worked for nothing, and no fee was lost for it: the payer can do so at will.
        if (found.status === 'failed_final') budget.note(record.payer)
        return found
      }
    } else if (blockhash !== undefined && (await isGone(record, blockhash, transaction))) {
      openStatuses.forget(transaction)
      const message =
        'The transaction did not get into a block before its block hash expired. Nothing was charged.'
      return { status: 'failed_final', reason: reasons.blockhashExpired, message, transaction }
    }
    // The node simulates it first, so that one that would fail now costs no fee; one too late is not sent on.
    const sent = await broadcast(rpc, bytes, { skipPreflight: false })
    if (sent.status !== 'unknown') lookedAtMs.set(transaction, clock.now())
    openStatuses.outdate(transaction)
    return pending
  }

  return {
    async recover(record) {
      const { attempt } = record
      if (attempt === null) {
        const message = 'Nothing was signed for this payment.'
        return { status: 'rejected', reason: reasons.settleFault, message }
      }
      try {
        return await recoverAttempt(record, attempt)
      } catch (error) {
        log.warn({ error, payment: record.key }, 'what became of a Solana payment could not be asked')
        return { status: 'pending', transaction: attempt.transaction, reason: reasons.pending }
      }
    },
    async stillOnChain(record) {
      const transaction = record.transaction ?? record.attempt?.transaction
      if (transaction === undefined) return 'unknown'
      try {
        const status = await openStatuses.of(transaction)
        openStatuses.forget(transaction)
        if (status !== null)
          return !hasReached(status, commitment) ? 'unknown' : status.err === null ? 'yes' : 'no'
        const wire = record.attempt === null ? undefined : wireOf(record.attempt.bytes)
        if (wire !== undefined && isSelfPaid(wire)) return await reader.stillOnChain(record)
        const blockhash = blockhashOf(wire)
        return blockhash !== undefined && (await isGone(record, blockhash, transaction)) ? 'no' : 'unknown'
      } catch (error) {
        log.warn(
          { error, payment: record.key },
          'whether a Solana payment is still on chain could not be asked',
        )
        return 'unknown'
      }
    },
  }
}

/** A stored transaction; undefined when the bytes are none, which only a foreign row can have. */
const wireOf = (base64: string) => readWireTransaction(Buffer.from(base64, 'base64'))

/** Its block hash in base58. */
function blockhashOf(transaction: WireTransaction | undefined): string | undefined {
  const message = transaction === undefined ? undefined : readMessage(transaction.message)
  return message === undefined ? undefined : base58.encode(message.blockhash)
}
