import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { base58 } from '@scure/base'
import { LRUCache } from 'lru-cache'
import type { NetworkId } from '../../../../core/domain/network.ts'
import { type Clock, systemClock } from '../../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../../core/ports/log.ts'
import type { OnChain, SettleOutcome } from '../../../../core/ports/settler.ts'
import { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import { readMessage } from '../../../../core/solana/message.ts'
import { readWireTransaction } from '../../../../core/solana/wire.ts'
import { eachOf } from '../../eachOf.ts'
import type { ChainReader, TracedPayment } from '../../facilitator/chainReader.ts'
import type { Commitment, TransactionError } from '../check/simulate.ts'
import type { Rpc, WithContext } from '../rpc/createSolanaRpc.ts'
import { rpcCodes } from '../rpc/rpcCodes.ts'
import { failedOnChain, settledIn } from '../settle/settlement.ts'

/** Signatures that one question answers: the most that nodes give. */
const PAGE_SIZE = 1_000
const MAX_PAGES = 20
/** Most transactions that are read in one look; the next one goes on. A payer can sign as many as it likes. */
const MAX_READS = 100
/** Transactions that are known to carry another message. */
const MAX_KNOWN = 50_000
/** Payments that are searched for at once. */
const SEARCHES_AT_ONCE = 4
/** For nodes that do not say how far their history goes: how long every node's is assumed to, in ms. */
const ASSUMED_HISTORY_MS = 3_600_000
/** Blocks are dated by their validators' clocks; older than the claim by this much is certainly before it. */
const CLOCK_SLACK_SECONDS = 300

export interface SolanaChainReaderOptions {
  readonly network: NetworkId
  readonly rpc: Rpc
  /** When a transfer counts. Default `confirmed`. */
  readonly commitment?: Commitment
  readonly pollMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Reads what became of Solana payments that somebody else signs the fee for. That signature is the transaction's id, so
 * it is not known ahead; the message is, and a payment's nonce is its hash: whatever transaction carries it is this one.
 */
export function createSolanaChainReader(options: SolanaChainReaderOptions): ChainReader {
  const { network, rpc, commitment = 'confirmed', pollMs = 1_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const closing = new AbortController()
  /** SHA-256 of the message by signature: what a signature signs never changes. */
  const messages = new LRUCache<string, string>({ max: MAX_KNOWN })
  const isOther = (payment: TracedPayment, signature: string): boolean =>
    (messages.get(signature) ?? payment.nonce) !== payment.nonce

  const landedAt = (signature: string, at: Commitment) =>
    rpc.call<Landed | null>('getTransaction', signature, {
      encoding: 'base64',
      commitment: at,
      maxSupportedTransactionVersion: 0,
    })

  /** What this transaction did for the payment; undefined when it is not on chain, or carries another message. */
  const outcomeOf = async (payment: TracedPayment, signature: string): Promise<SettleOutcome | undefined> => {
    if (isOther(payment, signature)) return
    const landed = await landedAt(signature, commitment)
    const wire =
      landed === null ? undefined : readWireTransaction(Buffer.from(landed.transaction[0], 'base64'))
    if (landed === null || wire === undefined) return
    messages.set(signature, hash('sha256', wire.message, 'hex'))
    if (isOther(payment, signature)) return
    if (landed.meta?.err === null) return settledIn(signature, landed.slot, payment.amountAtomic)
    if (landed.meta === null) return
    const final = commitment === 'finalized' ? landed : await landedAt(signature, 'finalized')
    const status = { ...landed.meta, ...(final !== null && { confirmationStatus: 'finalized' as const }) }
    return failedOnChain(signature, status)
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
    for (let page = 0; page < MAX_PAGES; page++) {
      const list = await rpc.call<Signed[]>('getSignaturesForAddress', payment.payer, {
        limit: PAGE_SIZE,
        ...(before !== undefined && { before }),
        ...context,
      })
      for (const { signature, blockTime } of list) {
        if (isBeforeClaim(blockTime, payment)) return { found: undefined, isComplete: true }
        if (isAfterExpiry(blockTime, payment) || isOther(payment, signature)) continue
        if (++reads > MAX_READS) return { found: undefined, isComplete: false }
        const found = await outcomeOf(payment, signature)
        if (found !== undefined) return { found, isComplete: true }
      }
      if (list.length < PAGE_SIZE) return { found: undefined, isComplete: await hasHistory(payment) }
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
      if (!(error instanceof RpcRefused) || error.code !== rpcCodes.methodNotFound) throw error
      return Math.abs(clock.now() - payment.claimedAtMs) < ASSUMED_HISTORY_MS
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
    const { found, isComplete } = await search(payment, { commitment })
    if (found !== undefined) return found
    if (!isComplete || !(await isGone(payment))) return pendingOf(payment)
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
    async recover(payments) {
      const outcomes: SettleOutcome[] = payments.map(pendingOf)
      await eachOf([...payments.keys()], SEARCHES_AT_ONCE, async (i) => {
        try {
          outcomes[i] = await look(payments[i]!)
        } catch (error) {
          log.warn({ network, error: String(error) }, 'a payment could not be looked up; it stays pending')
        }
      })
      return outcomes
    },
    async stillOnChain(payments) {
      const answers = payments.map((): OnChain => 'unknown')
      await eachOf([...payments.keys()], SEARCHES_AT_ONCE, async (i) => {
        const payment = payments[i]!
        const outcome = await outcomeOf(payment, payment.transaction ?? '')
        if (outcome !== undefined) {
          if (outcome.status !== 'pending') answers[i] = outcome.status === 'settled' ? 'yes' : 'no'
        } else if (await isGone(payment)) answers[i] = 'no'
      })
      return answers
    },
    close: () => closing.abort(),
  }
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

/** Its block hash is good for less than these minutes, so that it is another payment's. */
const isAfterExpiry = (seconds: number | null, { validBeforeMs }: TracedPayment): boolean =>
  seconds !== null && seconds - CLOCK_SLACK_SECONDS > validBeforeMs / 1000

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
