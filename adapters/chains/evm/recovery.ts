import type { PaymentIdentity, PaymentRecord } from '../../../core/domain/payment.ts'
import type { SettleOutcome, Settler } from '../../../core/ports/settler.ts'
import { broadcast } from './broadcast.ts'
import { findAuthorization } from './findAuthorization.ts'
import type { Head, HeadCache } from './head.ts'
import { judgeReceipt } from './judgeReceipt.ts'
import type { EvmSettlerOptions } from './options.ts'
import { reasons } from './reasons.ts'
import type { ReceiptWatch } from './receipts.ts'
import type { Rpc } from './rpc.ts'
import type { SettlingAccount } from './settlingAccount.ts'
import { provesTransfer, type Receipt, readReceipt } from './transferProof.ts'

export interface RecoveryParts {
  readonly options: Pick<
    Required<EvmSettlerOptions>,
    'network' | 'log' | 'confirmations' | 'expiryMarginSeconds' | 'receiptTimeoutMs' | 'pollMs'
  >
  readonly rpc: Rpc
  /** Whose account nonces are in question; undefined where somebody else signs. */
  readonly account: Pick<SettlingAccount, 'id' | 'mined' | 'abandon' | 'repair'> | undefined
  readonly heads: HeadCache
  readonly receipts: ReceiptWatch
}

/** What has to be known of a payment to look for it. */
export type TracedPayment = PaymentIdentity & Pick<PaymentRecord, 'attempt' | 'claimedAtMs' | 'transaction'>

export interface Recovery {
  recover(record: TracedPayment): Promise<SettleOutcome>
  stillOnChain(record: TracedPayment): ReturnType<Settler['stillOnChain']>
}

/** Makes what finds out, after a crash or a timeout, where a payment's money is. It never signs anything new. */
export function createRecovery(parts: RecoveryParts): Recovery {
  const { options, rpc, account, heads, receipts } = parts
  const { log, network, confirmations } = options
  /** A node that knows less than was known before is not asked for the absence of anything. */
  let highestSeen = 0

  const receiptOf = async (transaction: string): Promise<Receipt | undefined> =>
    transaction === ''
      ? undefined
      : readReceipt(await rpc.call('eth_getTransactionReceipt', transaction), transaction)

  const look = async (record: TracedPayment): Promise<SettleOutcome> => {
    const { attempt } = record
    const transaction = attempt?.transaction ?? ''
    const ours = account !== undefined && attempt?.settler === account.id ? { account, attempt } : undefined
    const pending = { status: 'pending', transaction, reason: reasons.pending } as const

    const receipt = await receiptOf(transaction)
    const head = await heads.fresh()
    highestSeen = Math.max(highestSeen, head.number)
    if (receipt !== undefined) {
      if (head.number - Number(receipt.blockNumber) + 1 < confirmations) return pending
      ours?.account.mined(ours.attempt)
      return judgeReceipt(rpc, receipt, record, record.claimedAtMs)
    }

    const found = await findAuthorization(rpc, record, head.number, record.claimedAtMs)
    if (found.fate === 'paid') return { status: 'settled', transaction: found.transaction }
    if (found.fate === 'spent') {
      return {
        status: 'failed_final',
        transaction,
        reason: reasons.nonceUsed,
        message: `The authorization was cancelled or used for other terms, in ${found.transaction}.`,
      }
    }
    if (found.fate === 'lost') return pending

    // Unused as of that very block; by its time the token takes it no more.
    const expiredAt = record.validBeforeMs / 1000 + options.expiryMarginSeconds
    if (head.timestamp >= expiredAt) {
      ours?.account.abandon(ours.attempt)
      return {
        status: 'failed_final',
        transaction,
        reason: reasons.validBefore,
        message: 'The authorization expired unused; the transfer can not land any more.',
      }
    }
    if (attempt === null || attempt.bytes === '' || head.timestamp * 1000 >= record.validBeforeMs)
      return pending
    const sent = await broadcast(rpc, attempt.bytes)
    log.info({ network, transaction, taken: sent.taken }, 'sent a stored settlement again')
    const landed = await receipts.wait(transaction, Math.min(options.receiptTimeoutMs, options.pollMs * 3))
    if (landed === undefined) return pending
    ours?.account.mined(ours.attempt)
    return judgeReceipt(rpc, landed, record, record.claimedAtMs)
  }

  return {
    async recover(record) {
      try {
        const outcome = await look(record)
        // The transaction may never have left; its account nonce has to be used all the same.
        if (outcome.status !== 'pending') void account?.repair()
        return outcome
      } catch (error) {
        log.warn({ network, error: String(error) }, 'a payment could not be looked up; it stays pending')
        const transaction = record.attempt?.transaction ?? ''
        return { status: 'pending', transaction, reason: reasons.pending }
      }
    },
    async stillOnChain(record) {
      try {
        const receipt = await receiptOf(record.transaction ?? '')
        if (receipt !== undefined && provesTransfer(receipt, record)) return 'yes'
        const head = await heads.fresh()
        if (head.number < highestSeen || isBefore(head, record)) return 'unknown'
        highestSeen = head.number
        const { fate } = await findAuthorization(rpc, record, head.number, record.claimedAtMs)
        if (fate === 'paid') return 'yes'
        return fate === 'lost' ? 'unknown' : 'no'
      } catch {
        return 'unknown'
      }
    },
  }
}

/** Whether a node is so far behind that its newest block is older than the payment itself. */
const isBefore = ({ timestamp }: Head, { claimedAtMs }: TracedPayment): boolean =>
  timestamp * 1000 < claimedAtMs - 60_000
