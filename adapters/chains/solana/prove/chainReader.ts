import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { base58 } from '@scure/base'
import { LRUCache } from 'lru-cache'
import type { NetworkId } from '../../../../core/domain/network.ts'
import type { OnChain, SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import { type Clock, systemClock } from '../../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../../core/ports/log.ts'
import { readMessage } from '../../../../core/solana/message.ts'
import { readWireTransaction } from '../../../../core/solana/wire.ts'
import type { ChainReader, TracedPayment } from '../../facilitator/chainReader.ts'
import { eachOf } from '../../proofs.ts'
import type { TransactionError } from '../check/simulation.ts'
import type { Commitment, Rpc } from '../rpc/nodes.ts'
import { failedOnChain, settledIn } from '../settle/settlement.ts'
import { createExpiry, seenSlotOf } from './expiry.ts'

/** Signatures per request. Nodes return no more. */
const PAGE_SIZE = 1_000
const MAX_PAGES = 20
/** Maximum number of transactions that a search reads, because a payer can sign any number. The next search continues. */
const MAX_READS = 100
/** Maximum number of transactions that are cached because they carry another message. */
const MAX_KNOWN = 50_000
/** Maximum number of payers whose payments are searched for concurrently. */
const SEARCHES_AT_ONCE = 4
/**
 * A block that is this much older than the claim, in seconds, is certainly before the claim. The difference allows for validators'
 * clocks, which set the block times.
 */
const CLOCK_SLACK_SECONDS = 300

export interface SolanaChainReaderOptions {
  readonly network: NetworkId
  readonly rpc: Rpc
  /** The commitment at which a transfer counts. Default `confirmed`. */
  readonly commitment?: Commitment
  readonly pollMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Reads the outcome of Solana payments whose fee another account signs for. That account's signature is the transaction's id, so
 * the id is not known in advance. But a payment's nonce is the hash of the message, so any transaction that carries the message is
 * this payment.
 */
export function createSolanaChainReader(options: SolanaChainReaderOptions): ChainReader {
  const { network, rpc, commitment = 'confirmed', pollMs = 1_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const closing = new AbortController()
  const expiry = createExpiry(rpc, clock)
  /** SHA-256 of the message, by signature. The message of a signature never changes. */
  const messages = new LRUCache<string, string>({ max: MAX_KNOWN })
  const landedAt = (signature: string, at: Commitment) =>
    rpc.call<Landed | null>('getTransaction', signature, {
      encoding: 'base64',
      commitment: at,
      maxSupportedTransactionVersion: 0,
    })

  /**
   * The effect of this transaction and the payment among these that it belongs to. Undefined if it belongs to none of them. Null if
   * the node does not return it.
   */
  const outcomeAmong = async (
    wanted: ReadonlyMap<string, TracedPayment>,
    signature: string,
  ): Promise<{ readonly payment: TracedPayment; readonly outcome: SettleOutcome } | undefined | null> => {
    const landed = await landedAt(signature, commitment)
    if (landed === null) return null
    const wire = readWireTransaction(Buffer.from(landed.transaction[0], 'base64'))
    if (wire === undefined) return
    const nonce = hash('sha256', wire.message, 'hex')
    messages.set(signature, nonce)
    const payment = wanted.get(nonce)
    if (payment === undefined) return
    if (landed.meta === null) return null
    if (landed.meta.err === null)
      return { payment, outcome: settledIn(signature, landed.slot, payment.amountAtomic) }
    const final = commitment === 'finalized' ? landed : await landedAt(signature, 'finalized')
    const status = { ...landed.meta, ...(final !== null && { confirmationStatus: 'finalized' as const }) }
    return { payment, outcome: failedOnChain(signature, status) }
  }

  const outcomeOf = async (payment: TracedPayment, signature: string): Promise<SettleOutcome | undefined> => {
    const known = messages.get(signature)
    if (known !== undefined && known !== payment.nonce) return
    return (await outcomeAmong(new Map([[payment.nonce, payment]]), signature))?.outcome
  }

  /**
   * Searches for payments of one payer among the transactions that the payer signed between their claims and their expiry. All
   * payments use one list. The search for a payment is complete when the list reaches back to its claim.
   */
  const search = async (
    payments: readonly TracedPayment[],
    historyMs: () => Promise<number>,
    context: object,
  ): Promise<Searched> => {
    const open = new Map(payments.map((payment) => [payment.nonce, payment]))
    const found = new Map<TracedPayment, SettleOutcome>()
    const complete = new Set<TracedPayment>()
    /**
     * Whether the node lists a transaction that it does not return. Such a transaction may be any of the payments. The node may lag
     * behind the node that listed it.
     */
    let hasGap = false
    const closeBefore = (seconds: number | null): void => {
      for (const [nonce, payment] of open) {
        if (!isBeforeClaim(seconds, payment)) continue
        if (!hasGap) complete.add(payment)
        open.delete(nonce)
      }
    }
    let before: string | undefined
    let reads = 0
    for (let page = 0; page < MAX_PAGES; page++) {
      const list = await rpc.call<Signed[]>('getSignaturesForAddress', payments[0]!.payer, {
        limit: PAGE_SIZE,
        ...(before !== undefined && { before }),
        ...context,
      })
      for (const { signature, blockTime } of list) {
        closeBefore(blockTime)
        if (open.size === 0) return { found, complete }
        const known = messages.get(signature)
        const isOther = known !== undefined && !open.has(known)
        if (isOther || [...open.values()].every((payment) => isAfterExpiry(blockTime, payment))) continue
        if (++reads > MAX_READS) return { found, complete }
        const hit = await outcomeAmong(open, signature)
        hasGap ||= hit === null
        if (hit == null) continue
        found.set(hit.payment, hit.outcome)
        open.delete(hit.payment.nonce)
      }
      if (open.size === 0) return { found, complete }
      if (list.length < PAGE_SIZE) {
        // If a list ends early, the node may only have deleted older entries.
        closeBefore((await historyMs()) / 1_000)
        return { found, complete }
      }
      before = list.at(-1)!.signature
    }
    return { found, complete }
  }

  /** Works through one payer's payments at a time. An error in one payer's list does not affect the others. */
  const eachPayer = (
    payments: readonly TracedPayment[],
    work: (own: readonly TracedPayment[]) => Promise<void>,
  ): Promise<void> => {
    const byPayer = [...Map.groupBy(payments, ({ payer }) => payer).values()]
    return eachOf(byPayer, SEARCHES_AT_ONCE, async (own) => {
      try {
        await work(own)
      } catch (error) {
        log.warn({ network, error: String(error) }, 'payments could not be checked and stay pending')
      }
    })
  }

  /**
   * The payments that are in no block and can no longer get into one. At a finalized slot their block hash is out of use, and the
   * payer's list at that slot does not have the message.
   */
  const goneOf = async (
    payments: readonly TracedPayment[],
    historyMs: () => Promise<number>,
  ): Promise<Set<TracedPayment>> => {
    const late = payments.flatMap((payment) => {
      const blockhash = blockhashOf(payment.payload)
      const seenSlot = seenSlotOf(payment)
      const mayBeLate = seenSlot !== null || clock.now() >= payment.validBeforeMs
      if (blockhash === undefined || !mayBeLate) return []
      return [{ payment, blockhash, seenSlot, validBeforeMs: payment.validBeforeMs }]
    })
    const gone = new Set<TracedPayment>()
    if (late.length === 0) return gone
    const slots = await expiry.slotsOf(late)
    const expired = late.filter((one) => slots.has(one)).map(({ payment }) => payment)
    if (expired.length === 0) return gone
    const context = { commitment: 'finalized', minContextSlot: Math.max(...slots.values()) }
    await eachPayer(expired, async (own) => {
      const { complete } = await search(own, historyMs, context)
      for (const payment of complete) gone.add(payment)
    })
    return gone
  }

  const pendingOf = (payment: TracedPayment) =>
    ({
      status: 'pending',
      transaction: payment.attempt?.transaction ?? '',
      reason: 'settlement_pending',
    }) as const

  const recover = async (payments: readonly TracedPayment[]): Promise<SettleOutcome[]> => {
    const outcomes = new Map<TracedPayment, SettleOutcome>()
    const historyMs = shared(() => expiry.historyMs())
    const searched: TracedPayment[] = []
    await eachPayer(payments, async (own) => {
      const unnamed: TracedPayment[] = []
      for (const payment of own) {
        const named = payment.attempt?.transaction ?? ''
        const outcome = named === '' ? undefined : await outcomeOf(payment, named)
        if (outcome === undefined) unnamed.push(payment)
        else outcomes.set(payment, outcome)
      }
      if (unnamed.length === 0) return
      const { found, complete } = await search(unnamed, historyMs, { commitment })
      for (const [payment, outcome] of found) outcomes.set(payment, outcome)
      searched.push(...complete)
    })
    const message =
      'The transaction did not get into a block before its block hash expired. Nothing was charged.'
    for (const payment of await goneOf(searched, historyMs)) {
      const transaction = payment.attempt?.transaction ?? ''
      outcomes.set(payment, { status: 'failed_final', reason: 'transaction_expired', message, transaction })
    }
    for (const payment of searched) {
      if (!outcomes.has(payment) && clock.now() < payment.validBeforeMs)
        outcomes.set(payment, { ...pendingOf(payment), isUnused: true })
    }
    return payments.map((payment) => outcomes.get(payment) ?? pendingOf(payment))
  }

  return {
    async prove(payment, timeoutMs) {
      const named = payment.attempt?.transaction ?? ''
      const until = performance.now() + timeoutMs
      while (named !== '' && !closing.signal.aborted) {
        const outcome = await outcomeOf(payment, named).catch(() => undefined)
        if (outcome !== undefined) return outcome
        if (performance.now() + pollMs > until) break
        await sleep(pollMs, undefined, { signal: closing.signal }).catch(() => {})
      }
      return pendingOf(payment)
    },
    recover,
    async stillOnChain(payments) {
      const responses = new Map<TracedPayment, OnChain>()
      const missing: TracedPayment[] = []
      await eachPayer(payments, async (own) => {
        for (const payment of own) {
          const outcome = await outcomeOf(payment, payment.transaction ?? '')
          if (outcome === undefined) missing.push(payment)
          else if (outcome.status !== 'pending')
            responses.set(payment, outcome.status === 'settled' ? 'yes' : 'no')
        }
      })
      const historyMs = shared(() => expiry.historyMs())
      for (const payment of await goneOf(missing, historyMs)) responses.set(payment, 'no')
      return payments.map((payment) => responses.get(payment) ?? 'unknown')
    },
    close: () => closing.abort(),
  }
}

/** The result of a search. */
interface Searched {
  readonly found: ReadonlyMap<TracedPayment, SettleOutcome>
  /** Payments that are certainly not in the payer's list. */
  readonly complete: ReadonlySet<TracedPayment>
}

/** Makes one request, at the first call. All callers share it. */
function shared<T>(read: () => Promise<T>): () => Promise<T> {
  let response: Promise<T> | undefined
  return () => (response ??= read())
}

interface Landed {
  readonly slot: number
  readonly transaction: readonly [string, string]
  readonly meta: { readonly err: TransactionError } | null
}

interface Signed {
  readonly signature: string
  readonly blockTime: number | null
}

const isBeforeClaim = (seconds: number | null, { claimedAtMs }: TracedPayment): boolean =>
  seconds !== null && seconds + CLOCK_SLACK_SECONDS < claimedAtMs / 1000

/** Whether the block is too late for the payment's block hash, so that the transaction carries another payment. */
const isAfterExpiry = (seconds: number | null, { validBeforeMs }: TracedPayment): boolean =>
  seconds !== null && seconds - CLOCK_SLACK_SECONDS > validBeforeMs / 1000

/** Base58 block hash of a stored x402 payload. Undefined if it cannot be read. */
function blockhashOf(payload: string | undefined): string | undefined {
  try {
    const { transaction } = JSON.parse(payload ?? '').payload
    const wire = readWireTransaction(Buffer.from(transaction, 'base64'))
    const message = wire === undefined ? undefined : readMessage(wire.message)
    return message === undefined ? undefined : base58.encode(message.blockhash)
  } catch {
    return undefined
  }
}
