import type { NetworkId } from '../../../../core/domain/network.ts'
import { neverSent, type SettlementAttempt } from '../../../../core/domain/payment.ts'
import { addressForm } from '../../../../core/evm/hex.ts'
import { isPermit2Nonce } from '../../../../core/evm/permit2.ts'
import { type ExpectedTransfer, findTransfer, type Receipt } from '../../../../core/evm/transferProof.ts'
import type { OnChain, Settled, SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { ChainReader, TracedPayment } from '../../facilitator/chainReader.ts'
import { transfersIn } from '../check/transferCalls.ts'
import { type EvmSettlerOptions, EXPIRY_MARGIN_SECONDS } from '../options.ts'
import { reasons } from '../reasons.ts'
import type { SettlingAccount } from '../settle/account.ts'
import { type Head, HeadCache } from '../settle/keys.ts'
import { ReceiptWatch } from '../settle/receipts.ts'
import { judgeReceipt, minedForNothing } from '../settle/settlement.ts'
import { findAuthorizations, outcomeOf } from './authorizations.ts'
import { callsOf, receiptsOf as receiptsByHash } from './pastBlocks.ts'

export interface RecoveryParts {
  readonly options: Pick<
    Required<EvmSettlerOptions>,
    'network' | 'log' | 'confirmations' | 'expiryMarginSeconds'
  >
  readonly rpc: Rpc
  /** The accounts whose nonces recovery reads. Empty when a facilitator signs. */
  readonly accounts: readonly Pick<SettlingAccount, 'id' | 'address' | 'mined' | 'abandon' | 'repair'>[]
  readonly heads: Pick<HeadCache, 'fresh'>
  /** Called with the receipt of a payment's own transaction once it has enough confirmations. */
  readonly onReceipt?: (record: TracedPayment, receipt: Receipt) => void
}

export type Recovery = Pick<ChainReader, 'recover' | 'stillOnChain'>

const hashForm = /^0x[0-9a-fA-F]{64}$/
const hexNumber = /^0x[0-9a-fA-F]{1,13}$/
/** A transaction that was just sent again should be in a block after this time, in ms. */
const SENT_AGAIN_MS = 2_000
/** Allowed difference between block clocks and this machine's clock, in ms, for payments whose block is unknown. */
const CLOCK_SLACK_MS = 60_000

/**
 * Creates the recovery of payments, which finds out after a crash or a timeout where the money is. Recovery never signs. It batches
 * its requests. There is one for the newest block and one per payment for the receipt. A payment without a proof takes one more for
 * the authorization and one to send the bytes again. If an authorization is used and this account's receipt is missing, recovery
 * searches the token's events ({@link findAuthorizations}).
 */
export function createRecovery({ options, rpc, accounts, heads, onReceipt }: RecoveryParts): Recovery {
  const { log, network, confirmations, expiryMarginSeconds } = options
  /** A node that lags behind the highest block seen so far cannot prove that something is absent. */
  let highestSeen = 0

  const headNow = async (): Promise<Head | undefined> => {
    try {
      const head = await heads.fresh()
      highestSeen = Math.max(highestSeen, head.number)
      return head
    } catch (error) {
      log.warn({ network, error: String(error) }, 'payments could not be checked and stay pending')
      return undefined
    }
  }

  let hasLoggedUnreadable = false
  /** The receipts that the node returned, by index. An error of one receipt does not affect the others. */
  const receiptsOf = async (
    records: readonly TracedPayment[],
    hashOf: (record: TracedPayment) => string,
  ): Promise<Map<number, Receipt>> => {
    const hashes = records.map(hashOf)
    const unreadable = new Set<string>()
    const asked = hashes.filter((hash) => hashForm.test(hash))
    const found = await receiptsByHash(rpc, asked, undefined, unreadable)
    // Logged once, so that the operator learns why mined payments stay open.
    if (unreadable.size > 0 && !hasLoggedUnreadable) {
      hasLoggedUnreadable = true
      const [transaction] = unreadable
      log.warn(
        { network, transaction },
        'the node returned a receipt that cannot be read, so the payment stays pending',
      )
    }
    const byPermit2 = records.flatMap(({ nonce }, i) =>
      isPermit2Nonce(nonce) && found.has(hashes[i]!) ? hashes[i]! : [],
    )
    const calls = await callsOf(rpc, byPermit2)
    return new Map(
      hashes.flatMap((hash, i): [number, Receipt][] => {
        const receipt = found.get(hash)
        const call = calls.get(hash)
        return receipt === undefined ? [] : [[i, call === undefined ? receipt : { ...receipt, call }]]
      }),
    )
  }

  const isDeep = (block: number | null, head: Head): boolean =>
    block !== null && head.number - block + 1 >= confirmations

  const accountOf = new Map(accounts.map((account) => [account.id, account]))

  /** The payment's attempt and the account that signed it, if it is one of these accounts. */
  const oursOf = ({ attempt }: TracedPayment) => {
    const account = attempt == null ? undefined : accountOf.get(attempt.settler)
    return account === undefined ? undefined : { attempt: attempt!, account }
  }

  /**
   * For each account with unsent attempts, how many nonces are used with enough confirmations. An account is missing if no node
   * returned its count.
   */
  const usedNonces = async (records: readonly TracedPayment[], head: Head): Promise<Map<string, number>> => {
    const asked = [
      ...new Set(
        records
          .map(oursOf)
          .filter(isUnsent)
          .map(({ account }) => account),
      ),
    ]
    const deep = `0x${Math.max(0, head.number - confirmations + 1).toString(16)}`
    const responses = await rpc.many(
      asked.map(({ address }) => ({ method: 'eth_getTransactionCount', params: [address, deep] })),
    )
    const used = new Map<string, number>()
    for (const [n, { id }] of asked.entries()) {
      const response = responses[n]!
      if (response.ok && hexNumber.test(String(response.result))) used.set(id, Number(response.result))
    }
    return used
  }

  /** Judges a payment with an unused authorization. It has expired for good, was mined without effect, or has to be sent again. */
  const judgeUnused = (
    record: TracedPayment,
    receipt: Receipt | undefined,
    head: Head,
    used: ReadonlyMap<string, number>,
  ): SettleOutcome | 'send' => {
    const ours = oursOf(record)
    const inside = transfersIn(record.attempt?.bytes ?? '')
    const failed = receipt && minedForNothing(receipt, inside.length > 1)
    // Compared with the chain's clock, because the token uses it as well.
    const overIn = (validBeforeMs: number) => validBeforeMs + 1_000 * (expiryMarginSeconds - head.timestamp)
    const overInMs = overIn(record.validBeforeMs)
    // The bytes must not be sent any more, or all their payments have expired.
    const isPointless =
      ours?.attempt.bytes === '' ||
      (overInMs <= 0 && inside.every(({ validBeforeMs }) => overIn(validBeforeMs) <= 0))
    if (receipt === undefined && isPointless) ours?.account.abandon(ours.attempt)
    // The authorization is unused in a block that is later than `validBefore`, so the token no longer accepts it.
    if (overInMs <= 0) {
      const { transaction } = pendingOf(record)
      const message = 'The authorization expired unused, so the transfer can no longer happen.'
      return failed === undefined
        ? { status: 'failed_final', transaction, reason: reasons.validBefore, message }
        : { status: 'failed_final', transaction, reason: failed.reason, message }
    }
    if (failed !== undefined)
      return { ...failed, recheckMs: Math.min(failed.recheckMs, Math.max(overInMs, SENT_AGAIN_MS)) }
    // The nonce is used, so the transaction cannot land any more, even if another process still has the bytes.
    if (isUnsent(ours) && (used.get(ours.account.id) ?? 0) > Number(ours.attempt.sequence))
      return {
        status: 'rejected',
        reason: neverSent,
        message: 'The transaction was never sent, and its nonce is used.',
      }
    if (head.timestamp * 1_000 >= record.validBeforeMs) {
      // The authorization can only expire, so the next check is at its expiry.
      return { ...pendingOf(record), recheckMs: Math.max(overInMs, SENT_AGAIN_MS) }
    }
    if (record.attempt !== null && record.attempt.bytes !== '') return 'send'
    return { ...pendingOf(record), isUnused: true }
  }

  const sendAgain = async (records: readonly TracedPayment[]): Promise<SettleOutcome[]> => {
    // Several payments may share one transaction.
    const all = [...new Set(records.map(({ attempt }) => attempt!.bytes))]
    const responses = await rpc.many(
      all.map((bytes) => ({ method: 'eth_sendRawTransaction', params: [bytes] })),
    )
    const isTaken = new Map(all.map((bytes, i) => [bytes, responses[i]!.ok]))
    const sent = responses.filter(({ ok }) => ok).length
    if (sent > 0) log.info({ network, sent }, 'sent stored settlements again')
    // If a node already has a transaction, or refuses it for now, the next round polls it.
    return records.map((record) =>
      isTaken.get(record.attempt!.bytes)
        ? { ...pendingOf(record), recheckMs: SENT_AGAIN_MS }
        : pendingOf(record),
    )
  }

  return {
    async recover(records) {
      const outcomes: SettleOutcome[] = records.map(pendingOf)
      const [receipts, head] = await Promise.all([
        receiptsOf(records, ({ attempt, withheld }) => (attempt ?? withheld)?.transaction ?? ''),
        headNow(),
      ])
      if (head === undefined) return outcomes
      // A withheld payment is judged without its receipt, which shows only its cost.
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
          const settled = findTransfer(receipt, expectedOf(record))
          if (!isDeep(Number(receipt.blockNumber), head)) continue
          const ours = oursOf(record)
          ours?.account.mined(ours.attempt)
          onReceipt?.(record, receipt)
          if (settled !== undefined) {
            outcomes[i] = settled
            continue
          }
        }
        if (isProvable(record)) open.push(i)
      }

      const wanted = open.map((i) => wantedOf(records[i]!))
      const [states, used] = await Promise.all([
        findAuthorizations(rpc, wanted, head.number, Math.max(0, head.number - confirmations + 1)),
        usedNonces(
          open.map((i) => records[i]!),
          head,
        ),
      ])
      const unsent: number[] = []
      for (const [n, i] of open.entries()) {
        const record = records[i]!
        const state = states[n]!
        if (state.kind === 'paid' && !isDeep(state.settled.block, head)) continue
        if (state.kind === 'spent' && !isDeep(state.block, head)) continue
        const found =
          outcomeOf(state, pendingOf(record).transaction) ?? judgeUnused(record, receipts.get(i), head, used)
        if (found === 'send') unsent.push(i)
        else outcomes[i] = found
      }
      const again = await sendAgain(unsent.map((i) => records[i]!))
      for (const [n, i] of unsent.entries()) outcomes[i] = again[n]!
      // The payment's transaction may never have been sent, but another transaction must then use its nonce.
      const over = new Set(
        records.flatMap((record, i) =>
          outcomes[i]!.status === 'pending' ? [] : (oursOf(record)?.account ?? []),
        ),
      )
      for (const account of over) void account.repair()
      return outcomes
    },
    async stillOnChain(records) {
      const responses: OnChain[] = records.map(() => 'unknown')
      const receipts = await receiptsOf(records, ({ transaction }) => transaction ?? '')
      const missing: number[] = []
      for (const [i, record] of records.entries()) {
        const receipt = receipts.get(i)
        const found = receipt && findTransfer(receipt, expectedOf(record))
        if (found !== undefined && isSameTransfer(found, record)) responses[i] = 'yes'
        else if (isProvable(record)) missing.push(i)
      }
      if (missing.length === 0) return responses
      const before = highestSeen
      const head = await headNow()
      if (head === undefined || head.number < before) return responses
      const provable = missing.filter((i) => isPast(head, records[i]!))
      const wanted = provable.map((i) => wantedOf(records[i]!))
      for (const [n, found] of (await findAuthorizations(rpc, wanted, head.number)).entries()) {
        const i = provable[n]!
        if (found.kind === 'lost') continue
        const isThere = found.kind === 'paid' && isSameTransfer(found.settled, records[i]!)
        responses[i] = isThere ? 'yes' : 'no'
      }
      return responses
    },
  }
}

/** Whether an attempt was never sent and must not be sent. */
const isUnsent = <T extends { attempt: SettlementAttempt }>(ours: T | undefined): ours is T =>
  ours !== undefined && ours.attempt.bytes === '' && ours.attempt.sequence !== null

/** The transfer of a payment. A payment by `upto` may be charged less than its authorized amount. */
const expectedOf = (record: TracedPayment): ExpectedTransfer => ({
  ...record,
  amountAtomic: record.chargedAtomic ?? record.amountAtomic,
})

const wantedOf = (record: TracedPayment) => ({ expected: expectedOf(record), sinceMs: record.claimedAtMs })

const pendingOf = ({ attempt }: TracedPayment) =>
  ({ status: 'pending', transaction: attempt?.transaction ?? '', reason: reasons.pending }) as const

/** Whether recovery can ask a node about the payment. An invalid row must not make a whole batch fail. */
const isProvable = ({ asset, payer, nonce }: TracedPayment): boolean =>
  addressForm.test(asset) && addressForm.test(payer) && (isPermit2Nonce(nonce) || hashForm.test(nonce))

/**
 * Whether the chain has the transfer at the position that the ledger records. A reorganization can move a transfer into another
 * transaction, or its transaction into a block where the event has another index. The ledger then has an event that is no longer on
 * chain. So recovery reverts the sale, finds the transfer again and books it at its new position.
 */
const isSameTransfer = (found: Settled, { transaction, event }: TracedPayment): boolean =>
  found.transaction?.toLowerCase() === transaction?.toLowerCase() &&
  (event === null || event === undefined || event === found.event)

/** Whether a node is past the block of a payment. Only then can the node prove that the payment is absent. */
const isPast = ({ number, timestamp }: Head, { block, claimedAtMs }: TracedPayment): boolean =>
  block == null ? timestamp * 1000 >= claimedAtMs - CLOCK_SLACK_MS : number > block

const zeroAddress = `0x${'00'.repeat(20)}`

export interface EvmChainReaderOptions {
  readonly network: NetworkId
  readonly rpc: Rpc
  readonly confirmations: number
  readonly firstPollMs: number
  readonly pollMs: number
  readonly clock: Clock
  readonly log: Log
}

/** Creates the reader of the outcomes of payments that a facilitator settles. It has no key and sends no transaction. */
export function createEvmChainReader(options: EvmChainReaderOptions): ChainReader {
  const { rpc } = options
  const receipts = new ReceiptWatch(options)
  const recovery = createRecovery({
    options: { ...options, expiryMarginSeconds: EXPIRY_MARGIN_SECONDS },
    rpc,
    accounts: [],
    heads: new HeadCache(rpc, zeroAddress, options.clock, 0),
  })
  return {
    ...recovery,
    async prove(payment, timeoutMs) {
      const transaction = payment.attempt?.transaction ?? ''
      const receipt = transaction === '' ? undefined : await receipts.wait(transaction, timeoutMs, 0)
      if (receipt === undefined) return (await recovery.recover([payment]))[0]!
      const call = isPermit2Nonce(payment.nonce)
        ? (await callsOf(rpc, [transaction])).get(transaction)
        : undefined
      const withCall = call === undefined ? receipt : { ...receipt, call }
      return judgeReceipt(rpc, withCall, expectedOf(payment), payment.claimedAtMs)
    },
    close: () => receipts.close(),
  }
}
