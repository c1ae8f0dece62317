import { LRUCache } from 'lru-cache'
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
import { reading, token, wordOf } from './token.ts'
import { provesTransfer, type Receipt, readReceipt } from './transferProof.ts'

export interface RecoveryParts {
  readonly options: Pick<
    Required<EvmSettlerOptions>,
    | 'network'
    | 'clock'
    | 'log'
    | 'confirmations'
    | 'expiryMarginSeconds'
    | 'receiptTimeoutMs'
    | 'pollMs'
    | 'lookAgainMs'
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

/** Open payments whose last thorough look is remembered; the others are looked at thoroughly each time. */
const maxRemembered = 10_000

/** Makes what finds out, after a crash or a timeout, where a payment's money is. It never signs anything new. */
export function createRecovery(parts: RecoveryParts): Recovery {
  const { options, rpc, account, heads, receipts } = parts
  const { log, network, confirmations, clock, lookAgainMs } = options
  /** When a payment was last looked at thoroughly and stayed open, by its key. */
  const lookedAtMs = new LRUCache<string, number>({ max: maxRemembered })
  /** A node that knows less than was known before is not asked for the absence of anything. */
  let highestSeen = 0

  const receiptOf = async (transaction: string): Promise<Receipt | undefined> =>
    transaction === ''
      ? undefined
      : readReceipt(await rpc.call('eth_getTransactionReceipt', transaction), transaction)

  /**
   * Whether nothing can have come of a payment since it was last looked at thoroughly: one call, where a thorough look
   * takes five. An open payment is asked about every few seconds for as long as it is open.
   */
  const isQuiet = async (record: TracedPayment): Promise<boolean> => {
    const sinceMs = lookedAtMs.get(record.key)
    if (sinceMs === undefined || Math.abs(clock.now() - sinceMs) >= lookAgainMs) return false
    const state = reading(token.authorizationState(record.asset, record.payer, record.nonce))
    return wordOf(await rpc.call(state.method, ...state.params)) === 0n
  }

  const look = async (record: TracedPayment): Promise<SettleOutcome> => {
    const { attempt } = record
    const pending = pendingOf(record)
    const { transaction } = pending
    const ours = account !== undefined && attempt?.settler === account.id ? { account, attempt } : undefined

    const [receipt, head] = await Promise.all([receiptOf(transaction), heads.fresh()])
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
    // What waits in the pool is looked for the next time.
    if (sent.taken === 'yes' && sent.isKnown) return pending
    log.info({ network, transaction, taken: sent.taken }, 'sent a stored settlement again')
    const landed = await receipts.wait(transaction, Math.min(options.receiptTimeoutMs, options.pollMs * 3))
    if (landed === undefined) return pending
    ours?.account.mined(ours.attempt)
    return judgeReceipt(rpc, landed, record, record.claimedAtMs)
  }

  return {
    async recover(record) {
      try {
        if (await isQuiet(record)) return pendingOf(record)
        const outcome = await look(record)
        if (outcome.status === 'pending') lookedAtMs.set(record.key, clock.now())
        else lookedAtMs.delete(record.key)
        // The transaction may never have left; its account nonce has to be used all the same.
        if (outcome.status !== 'pending') void account?.repair()
        return outcome
      } catch (error) {
        log.warn({ network, error: String(error) }, 'a payment could not be looked up; it stays pending')
        return pendingOf(record)
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

const pendingOf = ({ attempt }: TracedPayment) =>
  ({ status: 'pending', transaction: attempt?.transaction ?? '', reason: reasons.pending }) as const

/** Whether a node is so far behind that its newest block is older than the payment itself. */
const isBefore = ({ timestamp }: Head, { claimedAtMs }: TracedPayment): boolean =>
  timestamp * 1000 < claimedAtMs - 60_000
