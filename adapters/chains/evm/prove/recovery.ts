import { neverSent, type SettlementAttempt } from '../../../../core/domain/payment.ts'
import { addressForm } from '../../../../core/evm/address.ts'
import { findTransfer, isUnreadable, type Receipt, readReceipt } from '../../../../core/evm/transferProof.ts'
import type { OnChain, Settled, SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { ChainReader, TracedPayment } from '../../facilitator/chainReader.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { reasons } from '../reasons.ts'
import type { Head, HeadCache } from '../rpc/head.ts'
import type { SettlingAccount } from '../settle/settlingAccount.ts'
import { transfersIn } from '../settle/transfersIn.ts'
import { findAuthorizations } from './findAuthorizations.ts'
import { minedForNothing, outcomeOf } from './judgeReceipt.ts'

export interface RecoveryParts {
  readonly options: Pick<
    Required<EvmSettlerOptions>,
    'network' | 'log' | 'confirmations' | 'expiryMarginSeconds'
  >
  readonly rpc: Rpc
  /** Whose account nonces are in question; none where somebody else signs. */
  readonly accounts: readonly Pick<SettlingAccount, 'id' | 'address' | 'mined' | 'abandon' | 'repair'>[]
  readonly heads: Pick<HeadCache, 'fresh'>
  /** Is told of the receipt of a payment's own transaction, where that is deep enough to count. */
  readonly onReceipt?: (record: TracedPayment, receipt: Receipt) => void
}

export type Recovery = Pick<ChainReader, 'recover' | 'stillOnChain'>

const hashForm = /^0x[0-9a-fA-F]{64}$/
const hexNumber = /^0x[0-9a-fA-F]{1,13}$/
/** What was just sent again is in one of the next blocks. */
const SENT_AGAIN_MS = 2_000
/** For payments of which it is not known in which block they were seen: clocks of blocks and of this machine, in ms. */
const CLOCK_SLACK_MS = 60_000

/**
 * Makes what finds out, after a crash or a timeout, where payments' money is. It never signs anything new.
 *
 * A look at any number of payments is one question for the newest block, one each for the receipt, and for those without a
 * proof one each for the nonce and one to send the bytes again, all of them in batches; what is used without a receipt of
 * ours is found by its events ({@link findAuthorizations}).
 */
export function createRecovery({ options, rpc, accounts, heads, onReceipt }: RecoveryParts): Recovery {
  const { log, network, confirmations, expiryMarginSeconds } = options
  /** A node that knows less than was known before is not asked for the absence of anything. */
  let highestSeen = 0

  const headNow = async (): Promise<Head | undefined> => {
    try {
      const head = await heads.fresh()
      highestSeen = Math.max(highestSeen, head.number)
      return head
    } catch (error) {
      log.warn({ network, error: String(error) }, 'payments could not be looked up; they stay pending')
      return undefined
    }
  }

  let hasSaidUnreadable = false
  /** Once: whoever runs the node has to know why payments stay open that are in a block. */
  const sayUnreadable = (transaction: string): void => {
    if (hasSaidUnreadable) return
    hasSaidUnreadable = true
    log.warn(
      { network, transaction },
      'the node gave a receipt that can not be read; its payment stays pending',
    )
  }

  /** The receipts that are there, by their place; a node's fault for one is that one's alone. */
  const receiptsOf = async (hashes: readonly string[]): Promise<Map<number, Receipt>> => {
    const asked = [...new Set(hashes)].filter((hash) => hashForm.test(hash))
    const answers = await rpc.many(
      asked.map((hash) => ({ method: 'eth_getTransactionReceipt', params: [hash] })),
    )
    const found = new Map(
      asked.map((hash, n) => {
        const answer = answers[n]!
        const receipt = answer.ok ? readReceipt(answer.result, hash) : undefined
        if (answer.ok && isUnreadable(answer.result, hash)) sayUnreadable(hash)
        return [hash, receipt]
      }),
    )
    const receipts = new Map<number, Receipt>()
    for (const [i, hash] of hashes.entries()) {
      const receipt = found.get(hash)
      if (receipt !== undefined) receipts.set(i, receipt)
    }
    return receipts
  }

  const isDeep = (block: number | null, head: Head): boolean =>
    block !== null && head.number - block + 1 >= confirmations

  const accountOf = new Map(accounts.map((account) => [account.id, account]))

  /** The attempt and the account that signed it, where that is one of these. */
  const oursOf = ({ attempt }: TracedPayment) => {
    const account = attempt == null ? undefined : accountOf.get(attempt.settler)
    return account === undefined ? undefined : { attempt: attempt!, account }
  }

  /**
   * The account numbers that are used for as long as a payment has to be on chain to count, by account; of those of which somebody may have
   * to know it. One of which no node says is not there.
   */
  const usedNumbers = async (records: readonly TracedPayment[], head: Head): Promise<Map<string, number>> => {
    const asked = [
      ...new Set(
        records
          .map(oursOf)
          .filter(isUnsent)
          .map(({ account }) => account),
      ),
    ]
    const deep = `0x${Math.max(0, head.number - confirmations + 1).toString(16)}`
    const answers = await rpc.many(
      asked.map(({ address }) => ({ method: 'eth_getTransactionCount', params: [address, deep] })),
    )
    const used = new Map<string, number>()
    for (const [n, { id }] of asked.entries()) {
      const answer = answers[n]!
      if (answer.ok && hexNumber.test(String(answer.result))) used.set(id, Number(answer.result))
    }
    return used
  }

  /** What is still unused: expired for good, mined for nothing, or to be sent again. */
  const judgeUnused = (
    record: TracedPayment,
    receipt: Receipt | undefined,
    head: Head,
    used: ReadonlyMap<string, number>,
  ): SettleOutcome | 'send' => {
    const ours = oursOf(record)
    const inside = transfersIn(record.attempt?.bytes ?? '')
    const failed = receipt && minedForNothing(receipt, inside.length > 1)
    // By the chain's clock, in which the token decides it, too.
    const overIn = (validBeforeMs: number) => validBeforeMs + 1_000 * (expiryMarginSeconds - head.timestamp)
    const overInMs = overIn(record.validBeforeMs)
    // Bytes that nobody may send any more, or of which every payment is over by now.
    const isPointless =
      ours?.attempt.bytes === '' ||
      (overInMs <= 0 && inside.every(({ validBeforeMs }) => overIn(validBeforeMs) <= 0))
    if (receipt === undefined && isPointless) ours?.account.abandon(ours.attempt)
    // Unused as of that very block; by its time the token takes it no more.
    if (overInMs <= 0) {
      const { transaction } = pendingOf(record)
      const message = 'The authorization expired unused; the transfer can not land any more.'
      return failed === undefined
        ? { status: 'failed_final', transaction, reason: reasons.validBefore, message }
        : { status: 'failed_final', transaction, reason: failed.reason, message }
    }
    if (failed !== undefined)
      return { ...failed, lookAgainMs: Math.min(failed.lookAgainMs, Math.max(overInMs, SENT_AGAIN_MS)) }
    // Nothing can come of it any more, whoever still had the bytes: a number is used once.
    if (isUnsent(ours) && (used.get(ours.account.id) ?? 0) > Number(ours.attempt.sequence))
      return {
        status: 'rejected',
        reason: neverSent,
        message: 'It was never sent, and its account number is used.',
      }
    if (head.timestamp * 1_000 >= record.validBeforeMs) {
      // Only its end is to come, and when, is known.
      return { ...pendingOf(record), lookAgainMs: Math.max(overInMs, SENT_AGAIN_MS) }
    }
    if (record.attempt !== null && record.attempt.bytes !== '') return 'send'
    return { ...pendingOf(record), isUnused: true }
  }

  const sendAgain = async (records: readonly TracedPayment[]): Promise<SettleOutcome[]> => {
    // Several payments may wait for one transaction.
    const all = [...new Set(records.map(({ attempt }) => attempt!.bytes))]
    const answers = await rpc.many(
      all.map((bytes) => ({ method: 'eth_sendRawTransaction', params: [bytes] })),
    )
    const isTaken = new Map(all.map((bytes, i) => [bytes, answers[i]!.ok]))
    const sent = answers.filter(({ ok }) => ok).length
    if (sent > 0) log.info({ network, sent }, 'sent stored settlements again')
    // One that a node had already, or does not want now, is looked for the next time.
    return records.map((record) =>
      isTaken.get(record.attempt!.bytes)
        ? { ...pendingOf(record), lookAgainMs: SENT_AGAIN_MS }
        : pendingOf(record),
    )
  }

  return {
    async recover(records) {
      const outcomes: SettleOutcome[] = records.map(pendingOf)
      const [receipts, head] = await Promise.all([
        receiptsOf(records.map(({ attempt, withheld }) => (attempt ?? withheld)?.transaction ?? '')),
        headNow(),
      ])
      if (head === undefined) return outcomes
      // Of what is withheld it is known by this what it has cost, and nothing else.
      for (const [i, record] of records.entries()) {
        const receipt = receipts.get(i)
        if (record.attempt !== null || receipt === undefined) continue
        receipts.delete(i)
        if (isDeep(Number(receipt.blockNumber), head)) onReceipt?.(record, receipt)
      }
      const open: number[] = []
      for (const [i, record] of records.entries()) {
        const receipt = receipts.get(i)
        if (receipt !== undefined) {
          const settled = findTransfer(receipt, record)
          if (!isDeep(Number(receipt.blockNumber), head)) continue
          const ours = oursOf(record)
          ours?.account.mined(ours.attempt)
          onReceipt?.(record, receipt)
          if (settled !== undefined) {
            outcomes[i] = settled
            continue
          }
        }
        if (isAskable(record)) open.push(i)
      }

      const wanted = open.map((i) => ({ expected: records[i]!, sinceMs: records[i]!.claimedAtMs }))
      const [fates, used] = await Promise.all([
        findAuthorizations(rpc, wanted, head.number),
        usedNumbers(
          open.map((i) => records[i]!),
          head,
        ),
      ])
      const unsent: number[] = []
      for (const [n, i] of open.entries()) {
        const record = records[i]!
        const fate = fates[n]!
        if (fate.fate === 'paid' && !isDeep(fate.settled.block, head)) continue
        if (fate.fate === 'spent' && !isDeep(fate.block, head)) continue
        const found =
          outcomeOf(fate, pendingOf(record).transaction) ?? judgeUnused(record, receipts.get(i), head, used)
        if (found === 'send') unsent.push(i)
        else outcomes[i] = found
      }
      const again = await sendAgain(unsent.map((i) => records[i]!))
      for (const [n, i] of unsent.entries()) outcomes[i] = again[n]!
      // A transaction may never have left; its account nonce has to be used all the same.
      const over = new Set(
        records.flatMap((record, i) =>
          outcomes[i]!.status === 'pending' ? [] : (oursOf(record)?.account ?? []),
        ),
      )
      for (const account of over) void account.repair()
      return outcomes
    },
    async stillOnChain(records) {
      const answers: OnChain[] = records.map(() => 'unknown')
      const receipts = await receiptsOf(records.map(({ transaction }) => transaction ?? ''))
      const missing: number[] = []
      for (const [i, record] of records.entries()) {
        const receipt = receipts.get(i)
        const found = receipt && findTransfer(receipt, record)
        if (found !== undefined && isWhereBooked(found, record)) answers[i] = 'yes'
        else if (isAskable(record)) missing.push(i)
      }
      if (missing.length === 0) return answers
      const before = highestSeen
      const head = await headNow()
      if (head === undefined || head.number < before) return answers
      const askable = missing.filter((i) => isPast(head, records[i]!))
      const wanted = askable.map((i) => ({ expected: records[i]!, sinceMs: records[i]!.claimedAtMs }))
      for (const [n, found] of (await findAuthorizations(rpc, wanted, head.number)).entries()) {
        const i = askable[n]!
        if (found.fate === 'lost') continue
        const isThere = found.fate === 'paid' && isWhereBooked(found.settled, records[i]!)
        answers[i] = isThere ? 'yes' : 'no'
      }
      return answers
    },
  }
}

/** An attempt that was never sent, and must not be. */
const isUnsent = <T extends { attempt: SettlementAttempt }>(ours: T | undefined): ours is T =>
  ours !== undefined && ours.attempt.bytes === '' && ours.attempt.sequence !== null

const pendingOf = ({ attempt }: TracedPayment) =>
  ({ status: 'pending', transaction: attempt?.transaction ?? '', reason: reasons.pending }) as const

/** Whether a question about it can be put in words; a row that somebody spoiled must not spoil a batch. */
const isAskable = ({ asset, payer, nonce }: TracedPayment): boolean =>
  addressForm.test(asset) && addressForm.test(payer) && hashForm.test(nonce)

/**
 * A reorganisation can put a transfer into another transaction, or its transaction into a block where the event has another
 * number. Then what is booked is not on chain any more: it is taken out, found anew, and booked as it is.
 */
const isWhereBooked = (found: Settled, { transaction, event }: TracedPayment): boolean =>
  found.transaction?.toLowerCase() === transaction?.toLowerCase() &&
  (event === null || event === undefined || event === found.event)

/** Whether a node is past the block where a payment was seen; one that is not can say nothing about its absence. */
const isPast = ({ number, timestamp }: Head, { block, claimedAtMs }: TracedPayment): boolean =>
  block == null ? timestamp * 1000 >= claimedAtMs - CLOCK_SLACK_MS : number > block
