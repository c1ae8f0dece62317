import { base58 } from '@scure/base'
import type { PaymentRecord } from '../../../../core/domain/payment.ts'
import type { OnChain, SettleOutcome, Settler } from '../../../../core/ports/settler.ts'
import { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import { readMessage } from '../../../../core/solana/message.ts'
import { readWireTransaction, type WireTransaction } from '../../../../core/solana/wire.ts'
import { eachOf } from '../../eachOf.ts'
import type { ReadOptions } from '../options.ts'
import { reasons } from '../reasons.ts'
import type { Rpc, WithContext } from '../rpc/createSolanaRpc.ts'
import { rpcCodes } from '../rpc/rpcCodes.ts'
import { broadcast } from '../settle/broadcast.ts'
import { askStatuses, hasReached, MAX_SIGNATURES, type SignatureStatus } from '../settle/confirm.ts'
import { isSelfPaid } from '../settle/cosign.ts'
import { failedOnChain, settledIn } from '../settle/settlement.ts'
import { createSolanaChainReader } from './chainReader.ts'

/** For nodes that do not say how far their history goes: how long every node's is assumed to, in ms. */
const ASSUMED_HISTORY_MS = 3_600_000
/** Calls on their way at once, of those that are one a payment. */
const CALLS_AT_ONCE = 8
/** What was just sent again is in one of the next blocks. */
const SENT_AGAIN_MS = 2_000
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
 * One question is for 256 signatures; what is not on chain costs one more call each, to send it or, when it is late, two
 * for its block hash.
 */
export function createRecovery({ options, rpc }: RecoveryParts): Recovery {
  const { commitment, clock, log, network } = options
  /** One whose fee the payer pays may land by another signature of the payer's: it is known by its message. */
  const reader = createSolanaChainReader({ network, rpc, commitment, clock, log })

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

  /** The slot at which each of these block hashes was found out of use, in finalized blocks as well. */
  const expiriesOf = async (blockhashes: readonly string[]): Promise<Map<string, number>> => {
    const isValid = (blockhash: string, at: 'confirmed' | 'finalized') =>
      rpc.call<WithContext<boolean>>('isBlockhashValid', blockhash, { commitment: at })
    const slots = new Map<string, number>()
    await eachOf([...new Set(blockhashes)], CALLS_AT_ONCE, async (blockhash) => {
      // A hash that is too new for finalized blocks is out of use there as well, hence both questions and the clock.
      const confirmed = await isValid(blockhash, 'confirmed')
      if (confirmed.value !== false) return
      const finalized = await isValid(blockhash, 'finalized')
      if (finalized.value === false) slots.set(blockhash, finalized.context.slot)
    })
    return slots
  }

  /** From when on the node knows what happened, in ms since 1970, so that "not found" means something. */
  const historyMs = async (): Promise<number> => {
    try {
      const slot = await rpc.call<number>('getFirstAvailableBlock')
      const seconds = await rpc.call<number | null>('getBlockTime', slot)
      return seconds === null ? Number.POSITIVE_INFINITY : seconds * 1000
    } catch (error) {
      const isUnknown = error instanceof RpcRefused && error.code === rpcCodes.methodNotFound
      return isUnknown ? clock.now() - ASSUMED_HISTORY_MS : Number.POSITIVE_INFINITY
    }
  }

  /**
   * Those that no block can take any more, and none has. The order of the questions is the proof: first the hash is out
   * of use at a finalized slot, then a node that has seen that slot does not know the transaction.
   */
  const goneOf = async (late: readonly Missing[]): Promise<Set<Missing>> => {
    const gone = new Set<Missing>()
    if (late.length === 0) return gone
    const expiries = await expiriesOf(late.map(({ blockhash }) => blockhash))
    const expired = late.filter(({ blockhash }) => expiries.has(blockhash))
    if (expired.length === 0) return gone
    const statuses = await statusesOf(expired.map(({ signature }) => signature))
    const sinceMs = await historyMs()
    for (const one of expired) {
      const known = statuses.get(one.signature)
      if (known?.status !== null || known.slot < expiries.get(one.blockhash)!) continue
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
      const { transaction: signature, bytes } = attempt
      if (known.status !== null) {
        outcomes[at] = judge(record, signature, known.status)
        continue
      }
      const wire = wireOf(bytes)
      if (wire !== undefined && isSelfPaid(wire)) selfPaid.push(at)
      else missing.push({ at, record, signature, blockhash: blockhashOf(wire) ?? '' })
    }
    const isLate = ({ record, blockhash }: Missing) => blockhash !== '' && clock.now() >= record.validBeforeMs
    const gone = await goneOf(missing.filter(isLate))
    for (const one of gone) {
      const message =
        'The transaction did not get into a block before its block hash expired. Nothing was charged.'
      const { at, signature: transaction } = one
      outcomes[at] = { status: 'failed_final', reason: reasons.blockhashExpired, message, transaction }
    }
    const found = await reader.recover(selfPaid.map((at) => records[at]!))
    const unsent = missing.flatMap((one) => (gone.has(one) ? [] : [one.at]))
    for (const [n, at] of selfPaid.entries()) {
      const outcome = found[n]!
      if (outcome.status === 'pending' && outcome.reason === reasons.pending) unsent.push(at)
      else outcomes[at] = outcome
    }
    await eachOf(unsent, CALLS_AT_ONCE, async (at) => {
      // The node simulates it first, so that one that would fail now costs no fee; one too late is not sent on.
      const sent = await broadcast(rpc, records[at]!.attempt!.bytes, { skipPreflight: false })
      const outcome = outcomes[at]!
      if (sent.status === 'taken' && outcome.status === 'pending')
        outcomes[at] = { ...outcome, lookAgainMs: SENT_AGAIN_MS }
    })
    return outcomes
  }

  const judge = (record: PaymentRecord, signature: string, status: SignatureStatus): SettleOutcome => {
    if (!hasReached(status, commitment)) return pendingOf(record)
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
      const blockhash = blockhashOf(wire)
      if (wire !== undefined && isSelfPaid(wire)) selfPaid.push(at)
      else if (blockhash !== undefined && clock.now() >= record.validBeforeMs)
        missing.push({ at, record, signature, blockhash })
    }
    for (const { at } of await goneOf(missing)) answers[at] = 'no'
    const found = await reader.stillOnChain(selfPaid.map((at) => records[at]!))
    for (const [n, at] of selfPaid.entries()) answers[at] = found[n]!
    return answers
  }

  return { recover, stillOnChain }
}

/** A transaction that the node does not know. */
interface Missing {
  /** Its place among the records. */
  readonly at: number
  readonly record: PaymentRecord
  readonly signature: string
  /** Base58; empty where the stored bytes can't be read, which only a foreign row can have. */
  readonly blockhash: string
}

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
