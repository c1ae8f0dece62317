import { base58 } from '@scure/base'
import type { PaymentRecord } from '../../../../core/domain/payment.ts'
import type { OnChain, SettleOutcome, Settler } from '../../../../core/ports/chains/settler.ts'
import { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import { readMessage } from '../../../../core/solana/message.ts'
import { readWireTransaction, type WireTransaction } from '../../../../core/solana/wire.ts'
import type { ReadOptions } from '../options.ts'
import { reasons } from '../reasons.ts'
import type { Rpc } from '../rpc/createSolanaRpc.ts'
import { broadcastAll } from '../settle/broadcast.ts'
import { askStatuses, hasReached, MAX_SIGNATURES, type SignatureStatus } from '../settle/confirm.ts'
import { isSelfPaid } from '../settle/cosign.ts'
import { failedOnChain, settledIn } from '../settle/settlement.ts'
import { createSolanaChainReader } from './chainReader.ts'
import { createExpiry, type Lapsing, seenSlotOf } from './expiry.ts'

/** What was just sent again is in one of the next blocks. */
const SENT_AGAIN_MS = 2_000
/** Between looks at what can land still, or is going to be too late: both are over within two minutes, as a rule. */
const LOOK_MS = 4_000
/** After so many looks the chain stands still, or the node does not know better: then rarer and rarer. */
const MANY_LOOKS = 45
const signatureForm = /^[1-9A-HJ-NP-Za-km-z]{64,90}$/

export interface RecoveryParts {
  readonly options: ReadOptions
  readonly rpc: Rpc
}

/** Finds out what became of stored attempts. */
export type Recovery = Pick<Settler, 'recover' | 'stillOnChain'>

/** Where a signature stands, and the slot at which the node said so. */
interface Known {
  readonly status: SignatureStatus | null
  readonly slot: number
}

/**
 * A transaction is never replaced, so there are three answers: it is in a block; it still can get there, and the same
 * bytes are sent again; or its block hash is out of use in finalized blocks and it is in none of them. One that failed in
 * a block has an end when that block is finalized: before, another fork can carry it once more.
 *
 * One question is for 256 signatures. What is not on chain is sent again, and each of its block hashes is asked about
 * twice, whichever payments have it; those go out in batches.
 */
export function createRecovery({ options, rpc }: RecoveryParts): Recovery {
  const { commitment, clock, log, network } = options
  /** One whose fee the payer pays may land by another signature of the payer's: it is known by its message. */
  const reader = createSolanaChainReader({ network, rpc, commitment, clock, log })
  const expiry = createExpiry(rpc, clock)

  /** Where these signatures stand; of those that the node can't be asked about nothing is in the map. */
  const statusesOf = async (signatures: readonly string[]): Promise<Map<string, Known>> => {
    const known = new Map<string, Known>()
    const askable = [...new Set(signatures)].filter((signature) => signatureForm.test(signature))
    const ask = async (page: readonly string[]): Promise<void> => {
      if (page.length === 0) return
      try {
        const { context, value } = await askStatuses(rpc, page, true)
        for (const [i, signature] of page.entries())
          known.set(signature, { status: value[i] ?? null, slot: context.slot })
      } catch (error) {
        if (error instanceof RpcRefused && page.length > 1) {
          // The node objects to one of them; the others are not to suffer for it.
          const half = page.length >> 1
          await ask(page.slice(0, half))
          await ask(page.slice(half))
        } else log.warn({ error, network }, 'what became of Solana payments could not be asked')
      }
    }
    for (let i = 0; i < askable.length; i += MAX_SIGNATURES) await ask(askable.slice(i, i + MAX_SIGNATURES))
    return known
  }

  /**
   * Those that no block can take any more, and none has. The order of the questions is the proof: first the hash is out
   * of use at a finalized slot, then a node that has seen that slot does not know the transaction.
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
    // What is looked at for the first time is sent before anything else is asked: most of it can land.
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
      // What a node refuses now it may take while the block hash lasts, and when it lasts no longer, that is known soon.
      if (sent[n]!.status !== 'unknown' && outcome.status === 'pending' && tries < MANY_LOOKS)
        outcomes[at] = { ...outcome, lookAgainMs: tries === 0 ? SENT_AGAIN_MS : LOOK_MS }
    }
  }

  const judge = (record: PaymentRecord, signature: string, status: SignatureStatus): SettleOutcome => {
    if (!hasReached(status, commitment)) {
      const outcome = pendingOf(record)
      return outcome.status === 'pending' && record.tries < MANY_LOOKS
        ? { ...outcome, lookAgainMs: SENT_AGAIN_MS }
        : outcome
    }
    if (status.err === null) return settledIn(signature, status.slot, record.amountAtomic)
    return failedOnChain(signature, status)
  }

  const stillOnChain = async (records: readonly PaymentRecord[]): Promise<OnChain[]> => {
    const answers = records.map((): OnChain => 'unknown')
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
        if (status.err === null) answers[at] = 'yes'
        else if (status.confirmationStatus === 'finalized') answers[at] = 'no'
        continue
      }
      // A node that is not past the slot where it was seen can say nothing about its absence.
      if (record.block !== null && slot <= record.block) continue
      const wire = record.attempt === null ? undefined : wireOf(record.attempt.bytes)
      if (wire !== undefined && isSelfPaid(wire)) selfPaid.push(at)
      else if (wire !== undefined) missing.push({ ...missingOf(at, record, wire), signature })
    }
    for (const { at } of await goneOf(missing)) answers[at] = 'no'
    const found = await reader.stillOnChain(selfPaid.map((at) => records[at]!))
    for (const [n, at] of selfPaid.entries()) answers[at] = found[n]!
    return answers
  }

  return { recover, stillOnChain }
}

/** A transaction that the node does not know; its block hash is empty where the bytes can't be read, as in a foreign row. */
interface Missing extends Lapsing {
  /** Its place among the records. */
  readonly at: number
  readonly record: PaymentRecord
  readonly signature: string
}

const missingOf = (at: number, record: PaymentRecord, wire: WireTransaction | undefined): Missing => ({
  ...{ at, record, signature: record.attempt?.transaction ?? '', blockhash: blockhashOf(wire) ?? '' },
  ...{ seenSlot: seenSlotOf(record), validBeforeMs: record.validBeforeMs },
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

/** A stored transaction; undefined when the bytes are none, which only a foreign row can have. */
const wireOf = (base64: string) => readWireTransaction(Buffer.from(base64, 'base64'))

/** Its block hash in base58. */
function blockhashOf(transaction: WireTransaction | undefined): string | undefined {
  const message = transaction === undefined ? undefined : readMessage(transaction.message)
  return message === undefined ? undefined : base58.encode(message.blockhash)
}
