import { base58 } from '@scure/base'
import type { PaymentRecord } from '../../../../core/domain/payment.ts'
import type { OnChain, SettleOutcome, Settler } from '../../../../core/ports/chains/settler.ts'
import { RpcRefused } from '../../../../core/rpc/post.ts'
import { readMessage } from '../../../../core/solana/message.ts'
import { readWireTransaction, type WireTransaction } from '../../../../core/solana/wire.ts'
import { isSelfPaid } from '../check/transfer.ts'
import type { ReadOptions } from '../options.ts'
import { reasons } from '../reasons.ts'
import type { Rpc } from '../rpc/nodes.ts'
import { hasReached, MAX_SIGNATURES, queryStatuses, type SignatureStatus } from '../settle/confirmations.ts'
import { failedOnChain, settledIn } from '../settle/settlement.ts'
import { broadcastAll } from '../settle/transaction.ts'
import { createSolanaChainReader } from './chainReader.ts'
import { createExpiry, type Lapsing, seenSlotOf } from './expiry.ts'

/** A transaction that was just sent again should be in a block after this time, in ms. */
const SENT_AGAIN_MS = 2_000
/** Time between checks of transactions that can still land or may have expired, in ms. Most land or expire within two minutes. */
const POLL_MS = 4_000
/** After this many checks, the chain has probably stopped or the node lags, so the next checks become less and less frequent. */
const MAX_POLLS = 45
const signatureForm = /^[1-9A-HJ-NP-Za-km-z]{64,90}$/

export interface RecoveryParts {
  readonly options: ReadOptions
  readonly rpc: Rpc
}

/** Finds the outcome of stored attempts. */
export type Recovery = Pick<Settler, 'recover' | 'stillOnChain'>

/** The status of a signature, and the slot of the node's response. */
interface Known {
  readonly status: SignatureStatus | null
  readonly slot: number
}

/**
 * Creates the recovery of payments. A transaction is never replaced, so there are three cases. In the first, it is in a block. In
 * the second, it can still get into a block, so recovery sends the same bytes again. In the third, it is in no block and its block
 * hash has expired in finalized blocks. The failure of a transaction in a block is final once that block is finalized. Before that,
 * the transaction may still land in another fork.
 *
 * One request covers 256 signatures. Recovery sends transactions again that are not on chain, and checks each of their block hashes
 * twice. It batches these calls.
 */
export function createRecovery({ options, rpc }: RecoveryParts): Recovery {
  const { commitment, clock, log, network } = options
  /**
   * The reader finds transactions whose fee the payer pays. They may land with another signature of the payer, so only the message
   * identifies them.
   */
  const reader = createSolanaChainReader({ network, rpc, commitment, clock, log })
  const expiry = createExpiry(rpc, clock)

  /** The status of these signatures. A signature has no entry if the node could not be asked about it. */
  const statusesOf = async (signatures: readonly string[]): Promise<Map<string, Known>> => {
    const known = new Map<string, Known>()
    const askable = [...new Set(signatures)].filter((signature) => signatureForm.test(signature))
    const read = async (page: readonly string[]): Promise<void> => {
      if (page.length === 0) return
      try {
        const { context, value } = await queryStatuses(rpc, page, true)
        for (const [i, signature] of page.entries())
          known.set(signature, { status: value[i] ?? null, slot: context.slot })
      } catch (error) {
        if (error instanceof RpcRefused && page.length > 1) {
          // The node rejects one of the signatures. The page is halved, so that the others get their status.
          const half = page.length >> 1
          await read(page.slice(0, half))
          await read(page.slice(half))
        } else log.warn({ error, network }, 'the status of Solana payments could not be read')
      }
    }
    for (let i = 0; i < askable.length; i += MAX_SIGNATURES) await read(askable.slice(i, i + MAX_SIGNATURES))
    return known
  }

  /**
   * Transactions that are in no block and can no longer get into one. The order of the requests is the proof. In the first
   * response, the block hash is out of use at a finalized slot. In the second, a node that has reached that slot does not have the
   * transaction.
   */
  const goneOf = async (late: readonly Missing[]): Promise<Set<Missing>> => {
    const gone = new Set<Missing>()
    const readable = late.filter(({ blockhash }) => blockhash !== '')
    if (readable.length === 0) return gone
    const slots = await expiry.slotsOf(readable)
    if (slots.size === 0) return gone
    const expired = [...slots.keys()] as Missing[]
    const statuses = await statusesOf(expired.map(({ signature }) => signature))
    const sinceMs = await expiry.historyMs()
    for (const one of expired) {
      const known = statuses.get(one.signature)
      if (known?.status !== null || known.slot < slots.get(one)!) continue
      if (sinceMs < one.record.claimedAtMs) gone.add(one)
    }
    return gone
  }

  const recover = async (records: readonly PaymentRecord[]): Promise<SettleOutcome[]> => {
    const outcomes = records.map(pendingOf)
    const statuses = await statusesOf(records.map(({ attempt }) => attempt?.transaction ?? ''))
    const missing: Missing[] = []
    const selfPaid: number[] = []
    for (const [at, record] of records.entries()) {
      const { attempt } = record
      const known = attempt === null ? undefined : statuses.get(attempt.transaction)
      if (attempt === null || known === undefined) continue
      if (known.status !== null) {
        outcomes[at] = judge(record, attempt.transaction, known.status)
        continue
      }
      const wire = wireOf(attempt.bytes)
      if (wire !== undefined && isSelfPaid(wire)) selfPaid.push(at)
      else missing.push(missingOf(at, record, wire))
    }
    // The first check of a transaction sends it before anything else, because most transactions can still land.
    const mayBeLate = ({ seenSlot, record }: Missing) =>
      clock.now() >= record.validBeforeMs || (seenSlot !== null && record.tries > 0)
    const gone = await goneOf(missing.filter(mayBeLate))
    for (const { at, signature: transaction } of gone) {
      const message =
        'The transaction did not get into a block before its block hash expired. Nothing was charged.'
      outcomes[at] = { status: 'failed_final', reason: reasons.blockhashExpired, message, transaction }
    }
    const found = await reader.recover(selfPaid.map((at) => records[at]!))
    const unsent = missing.flatMap((one) => (gone.has(one) ? [] : [one.at]))
    for (const [n, at] of selfPaid.entries()) {
      const outcome = found[n]!
      if (outcome.status === 'pending' && outcome.reason === reasons.pending) unsent.push(at)
      else outcomes[at] = outcome
    }
    await sendAgain(unsent, records, outcomes)
    return outcomes
  }

  const sendAgain = async (
    unsent: readonly number[],
    records: readonly PaymentRecord[],
    outcomes: SettleOutcome[],
  ): Promise<void> => {
    const sent = await broadcastAll(
      rpc,
      unsent.map((at) => records[at]!.attempt!.bytes),
    )
    for (const [n, at] of unsent.entries()) {
      const outcome = outcomes[at]!
      const { tries } = records[at]!
      // A node that refuses the transaction now may accept it while its block hash lasts. A check soon shows when the hash has
      // expired.
      if (sent[n]!.status !== 'unknown' && outcome.status === 'pending' && tries < MAX_POLLS)
        outcomes[at] = { ...outcome, recheckMs: tries === 0 ? SENT_AGAIN_MS : POLL_MS }
    }
  }

  const judge = (record: PaymentRecord, signature: string, status: SignatureStatus): SettleOutcome => {
    if (!hasReached(status, commitment)) {
      const outcome = pendingOf(record)
      return outcome.status === 'pending' && record.tries < MAX_POLLS
        ? { ...outcome, recheckMs: SENT_AGAIN_MS }
        : outcome
    }
    if (status.err === null) return settledIn(signature, status.slot, record.amountAtomic)
    return failedOnChain(signature, status)
  }

  const stillOnChain = async (records: readonly PaymentRecord[]): Promise<OnChain[]> => {
    const responses = records.map((): OnChain => 'unknown')
    const signatureOf = (record: PaymentRecord) => record.transaction ?? record.attempt?.transaction ?? ''
    const statuses = await statusesOf(records.map(signatureOf))
    const missing: Missing[] = []
    const selfPaid: number[] = []
    for (const [at, record] of records.entries()) {
      const signature = signatureOf(record)
      const known = statuses.get(signature)
      if (known === undefined) continue
      const { status, slot } = known
      if (status !== null) {
        if (!hasReached(status, commitment)) continue
        if (status.err === null) responses[at] = 'yes'
        else if (status.confirmationStatus === 'finalized') responses[at] = 'no'
        continue
      }
      // A node that has not passed the slot of the transaction cannot prove that the transaction is absent.
      if (record.block !== null && slot <= record.block) continue
      const wire = record.attempt === null ? undefined : wireOf(record.attempt.bytes)
      if (wire !== undefined && isSelfPaid(wire)) selfPaid.push(at)
      else if (wire !== undefined) missing.push({ ...missingOf(at, record, wire), signature })
    }
    for (const { at } of await goneOf(missing)) responses[at] = 'no'
    const found = await reader.stillOnChain(selfPaid.map((at) => records[at]!))
    for (const [n, at] of selfPaid.entries()) responses[at] = found[n]!
    // A transaction that left the chain can land again until its block hash expires, but nodes may have dropped it with its block.
    const mayLand = (at: number) => responses[at] === 'unknown' && clock.now() < records[at]!.validBeforeMs
    const absent = [...missing.map(({ at }) => at), ...selfPaid].filter(mayLand)
    await broadcastAll(
      rpc,
      absent.map((at) => records[at]!.attempt!.bytes),
    )
    return responses
  }

  return { recover, stillOnChain }
}

/**
 * A transaction that the node does not have. Its block hash is empty if the bytes cannot be read because another program wrote the
 * row.
 */
interface Missing extends Lapsing {
  /** The transaction's index among the records. */
  readonly at: number
  readonly record: PaymentRecord
  readonly signature: string
}

const missingOf = (at: number, record: PaymentRecord, wire: WireTransaction | undefined): Missing => ({
  at,
  record,
  signature: record.attempt?.transaction ?? '',
  blockhash: blockhashOf(wire) ?? '',
  seenSlot: seenSlotOf(record),
  validBeforeMs: record.validBeforeMs,
})

function pendingOf({ attempt }: PaymentRecord): SettleOutcome {
  if (attempt !== null)
    return { status: 'pending', transaction: attempt.transaction, reason: reasons.pending }
  return {
    status: 'rejected',
    reason: reasons.settleFault,
    message: 'Nothing was signed for this payment.',
  }
}

/** A stored transaction. Undefined if the bytes are no transaction, because another program wrote the row. */
const wireOf = (base64: string) => readWireTransaction(Buffer.from(base64, 'base64'))

/** The transaction's block hash in base58. */
function blockhashOf(transaction: WireTransaction | undefined): string | undefined {
  const message = transaction === undefined ? undefined : readMessage(transaction.message)
  return message === undefined ? undefined : base58.encode(message.blockhash)
}
