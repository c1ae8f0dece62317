import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { base58 } from '@scure/base'
import { LRUCache } from 'lru-cache'
import type { NetworkId } from '../../../core/domain/network.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { SettleOutcome } from '../../../core/ports/settler.ts'
import { readMessage } from '../../../core/solana/message.ts'
import { readWireTransaction } from '../../../core/solana/wire.ts'
import type { ChainReader, TracedPayment } from '../facilitator/chainReader.ts'
import type { Rpc, WithContext } from './rpc.ts'
import { RpcRefused, rpcCodes } from './rpcError.ts'
import type { Commitment } from './simulate.ts'

/** Signatures that one question answers: the most that nodes give. */
const pageSize = 1_000
const maxPages = 20
/** Most transactions that are read in one look; the next one goes on. A payer can sign as many as it likes. */
const maxReads = 100
/** Transactions that are known to carry another message. */
const maxKnown = 50_000
/** Open payments whose last search is remembered. */
const maxRemembered = 10_000
/** For nodes that do not say how far their history goes: how long every node's is assumed to, in ms. */
const assumedHistoryMs = 3_600_000
/** Blocks are dated by their validators' clocks; older than the claim by this much is certainly before it. */
const clockSlackSeconds = 300

export interface SolanaChainReaderOptions {
  readonly network: NetworkId
  readonly rpc: Rpc
  /** When a transfer counts. Default `confirmed`. */
  readonly commitment?: Commitment
  readonly pollMs?: number
  /** How often an open payment is searched for among all that its payer signed, in ms. Default 15,000. */
  readonly lookAgainMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Reads what became of Solana payments that somebody else signs the fee for. That signature is the transaction's id, so
 * it is not known ahead; the message is, and a payment's nonce is its hash: whatever transaction carries it is this one.
 */
export function createSolanaChainReader(options: SolanaChainReaderOptions): ChainReader {
  const { network, rpc, commitment = 'confirmed', pollMs = 1_000, lookAgainMs = 15_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const closing = new AbortController()
  /** SHA-256 of the message by signature: what a signature signs never changes. */
  const messages = new LRUCache<string, string>({ max: maxKnown })
  /** When a payment was last searched for and stayed open, by its key. */
  const searchedAtMs = new LRUCache<string, number>({ max: maxRemembered })
  const isOther = (payment: TracedPayment, signature: string): boolean =>
    (messages.get(signature) ?? payment.nonce) !== payment.nonce

  /** What this transaction did for the payment; undefined when it is not on chain, or carries another message. */
  const outcomeOf = async (payment: TracedPayment, signature: string): Promise<SettleOutcome | undefined> => {
    if (isOther(payment, signature)) return
    const landed = await rpc.call<Landed | null>('getTransaction', signature, {
      encoding: 'base64',
      commitment,
      maxSupportedTransactionVersion: 0,
    })
    const wire =
      landed === null ? undefined : readWireTransaction(Buffer.from(landed.transaction[0], 'base64'))
    if (landed === null || wire === undefined) return
    messages.set(signature, hash('sha256', wire.message, 'hex'))
    if (isOther(payment, signature)) return
    if (landed.meta?.err === null) return { status: 'settled', transaction: signature }
    if (landed.meta === null) return
    return {
      status: 'failed_final',
      reason: 'invalid_exact_svm_transaction_failed',
      message: 'The transaction is in a block and failed there. Nothing was transferred.',
      transaction: signature,
    }
  }

  /**
   * Looks through what the payer signed between the claim and the end of its time.
   *
   * @returns undefined when nothing was found; `isComplete` false when the node's list did not reach back to the claim, or there
   *   was too much to read at once
   */
  const search = async (payment: TracedPayment, context: object) => {
    let before: string | undefined
    let reads = 0
    for (let page = 0; page < maxPages; page++) {
      const list = await rpc.call<Signed[]>('getSignaturesForAddress', payment.payer, {
        limit: pageSize,
        ...(before !== undefined && { before }),
        ...context,
      })
      for (const { signature, blockTime } of list) {
        if (isBeforeClaim(blockTime, payment)) return { found: undefined, isComplete: true }
        if (isAfterExpiry(blockTime, payment) || isOther(payment, signature)) continue
        if (++reads > maxReads) return { found: undefined, isComplete: false }
        const found = await outcomeOf(payment, signature)
        if (found !== undefined) return { found, isComplete: true }
      }
      if (list.length < pageSize) return { found: undefined, isComplete: await hasHistory(payment) }
      before = list.at(-1)!.signature
    }
    return { found: undefined, isComplete: false }
  }

  /** A list that ends early may only mean that the node has forgotten the rest. */
  const hasHistory = async (payment: TracedPayment): Promise<boolean> => {
    try {
      const slot = await rpc.call<number>('getFirstAvailableBlock')
      return isBeforeClaim(await rpc.call<number | null>('getBlockTime', slot), payment)
    } catch (error) {
      if (!(error instanceof RpcRefused) || error.rpcCode !== rpcCodes.methodNotFound) throw error
      return Math.abs(clock.now() - payment.claimedAtMs) < assumedHistoryMs
    }
  }

  /**
   * True when no block can take the message any more, and none has: its block hash is out of use at a finalized slot,
   * and the payer's list as of that slot does not hold it.
   */
  const isGone = async (payment: TracedPayment): Promise<boolean> => {
    const blockhash = blockhashOf(payment.payload)
    if (blockhash === undefined || clock.now() < payment.validBeforeMs) return false
    const isValid = (commitment: string) =>
      rpc.call<WithContext<boolean>>('isBlockhashValid', blockhash, { commitment })
    if ((await isValid('confirmed')).value !== false) return false
    const { context, value } = await isValid('finalized')
    if (value !== false) return false
    const { found, isComplete } = await search(payment, {
      commitment: 'finalized',
      minContextSlot: context.slot,
    })
    return found === undefined && isComplete
  }

  const pendingOf = (payment: TracedPayment) =>
    ({
      status: 'pending',
      transaction: payment.attempt?.transaction ?? '',
      reason: 'settlement_pending',
    }) as const

  const look = async (payment: TracedPayment): Promise<SettleOutcome> => {
    const named = payment.attempt?.transaction ?? ''
    const outcome = named === '' ? undefined : await outcomeOf(payment, named)
    if (outcome !== undefined) return outcome
    const sinceMs = searchedAtMs.get(payment.key)
    if (sinceMs !== undefined && Math.abs(clock.now() - sinceMs) < lookAgainMs) return pendingOf(payment)
    const { found, isComplete } = await search(payment, { commitment })
    if (found !== undefined) return found
    if (!isComplete || !(await isGone(payment))) {
      searchedAtMs.set(payment.key, clock.now())
      return pendingOf(payment)
    }
    const message =
      'The transaction did not get into a block before its block hash expired. Nothing was charged.'
    return { status: 'failed_final', reason: 'transaction_expired', message, transaction: named }
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
    async recover(payment) {
      try {
        return await look(payment)
      } catch (error) {
        log.warn({ network, error: String(error) }, 'a payment could not be looked up; it stays pending')
        return pendingOf(payment)
      }
    },
    async stillOnChain(payment) {
      try {
        const outcome = await outcomeOf(payment, payment.transaction ?? '')
        if (outcome !== undefined) return outcome.status === 'settled' ? 'yes' : 'no'
        return (await isGone(payment)) ? 'no' : 'unknown'
      } catch {
        return 'unknown'
      }
    },
    close: () => closing.abort(),
  }
}

interface Landed {
  readonly transaction: readonly [string, string]
  readonly meta: { readonly err: unknown } | null
}

interface Signed {
  readonly signature: string
  readonly blockTime: number | null
}

const isBeforeClaim = (seconds: number | null, { claimedAtMs }: TracedPayment): boolean =>
  seconds !== null && seconds + clockSlackSeconds < claimedAtMs / 1000

/** Its block hash is good for less than these minutes, so that it is another payment's. */
const isAfterExpiry = (seconds: number | null, { validBeforeMs }: TracedPayment): boolean =>
  seconds !== null && seconds - clockSlackSeconds > validBeforeMs / 1000

/** Base58 block hash of a stored x402 payload; undefined when it can't be read. */
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
