import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import { type Receipt, readReceipt } from '../../../../core/evm/transferProof.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { createHeadSocket, type HeadSocket } from '../rpc/headSocket.ts'
import { type BroadcastResult, broadcast, type SyncSend } from './transaction.ts'

/** Maximum number of polls in flight. A later poll waits until one of them ends. */
const MAX_ROUNDS = 2
/**
 * A node can announce a block before it has the block's receipts. After a block the first poll starts at once, and each further
 * pause is longer by this factor.
 */
const MISSED_TIMES = 4

interface ReceiptWatchOptions {
  readonly rpc: Rpc
  /** Shortest time between two polls, and before the first, in ms. */
  readonly firstPollMs: number
  /** Longest time between two polls, in ms. */
  readonly pollMs: number
  /** Confirmations a receipt needs before it counts, including its own block. */
  readonly confirmations: number
  /** A node that announces new blocks. With it, polls follow the blocks, and timed polls are less frequent. */
  readonly ws?: { readonly url: string; readonly chainId: number } | undefined
  readonly log: Log
}

interface Waiter {
  readonly hash: string
  /** When the wait began, on the monotonic clock, in ms. `dueAt` uses the same clock. */
  readonly sinceMs: number
  /** Pause before the next poll, in ms; 0 before the first poll. */
  pauseMs: number
  dueAt: number
  /** Whether a block arrived during the poll, so the poll has to be repeated. */
  isOutdated: boolean
  polls: number
  end(receipt: Receipt | undefined): void
}

/**
 * Waits for receipts. All waits share one request per round. The watch polls when a receipt is likely to exist, judging by this
 * chain's recent times ({@link PollPace}). It sends no requests while nothing waits.
 */
export class ReceiptWatch {
  readonly #options: ReceiptWatchOptions
  readonly #pace: PollPace
  readonly #heads: HeadSocket | undefined
  readonly #waiting = new Set<Waiter>()
  #timer: NodeJS.Timeout | undefined
  #rounds = 0
  #isClosed = false
  /** Time of the last block announcement, in ms on the monotonic clock. */
  #announcedAtMs = 0
  #polledAtMs = Number.NEGATIVE_INFINITY

  constructor(options: ReceiptWatchOptions) {
    const { firstPollMs, pollMs, ws, log } = options
    this.#options = options
    this.#pace = new PollPace(firstPollMs, pollMs)
    this.#heads = ws && createHeadSocket({ ...ws, log, onHead: () => this.#onHead() })
  }

  /** Typical time until a transaction has its confirmations, in ms; undefined before the first. */
  get usualMs(): number | undefined {
    return this.#pace.typicalMs
  }

  /** Records how long a transaction took whose receipt was found in another way. */
  note(tookMs: number): void {
    this.#pace.note(tookMs)
  }

  /**
   * The receipt once it has enough confirmations, or undefined after `timeoutMs` or {@link close}.
   * @param firstMs when to poll first, in ms from now; the typical time by default
   */
  wait(hash: string, timeoutMs: number, firstMs?: number): Promise<Receipt | undefined> {
    if (this.#isClosed) return Promise.resolve(undefined)
    return new Promise((resolve) => {
      const waiter: Waiter = {
        hash,
        sinceMs: performance.now(),
        pauseMs: 0,
        dueAt: 0,
        isOutdated: false,
        polls: 0,
        end: (receipt) => {
          if (!this.#waiting.delete(waiter)) return
          clearTimeout(limit)
          if (this.#waiting.size === 0) {
            clearTimeout(this.#timer)
            this.#heads?.rest()
          }
          if (receipt !== undefined) this.#pace.note(performance.now() - waiter.sinceMs)
          resolve(receipt)
        },
      }
      const limit = setTimeout(() => waiter.end(undefined), timeoutMs)
      plan(waiter, firstMs ?? this.#nextPause(waiter))
      this.#waiting.add(waiter)
      this.#heads?.need()
      this.#arm()
    })
  }

  close(): void {
    this.#isClosed = true
    for (const waiter of [...this.#waiting]) waiter.end(undefined)
    this.#heads?.close()
  }

  #nextPause({ sinceMs, pauseMs }: Waiter): number {
    // The first poll is never delayed, because a chain with instant blocks has announced the block before the wait began.
    if (this.#heads?.isOpen && pauseMs > 0) return Math.min(MISSED_TIMES * pauseMs, this.#options.pollMs)
    return this.#pace.gapMs(pauseMs === 0 ? 0 : performance.now() - sinceMs)
  }

  /** Sets the one timer for the waiter that is due first. A waiter whose poll is in flight is never due. */
  #arm(): void {
    clearTimeout(this.#timer)
    if (this.#rounds >= MAX_ROUNDS) return
    let first = Number.POSITIVE_INFINITY
    for (const waiter of this.#waiting) first = Math.min(first, waiter.dueAt)
    if (!Number.isFinite(first)) return
    this.#timer = setTimeout(
      () => {
        this.#round()
        this.#arm()
      },
      Math.max(0, first - performance.now()),
    )
  }

  #round(): void {
    const now = performance.now()
    // The poll includes waiters that are due soon, because one request is cheaper than two.
    const due = [...this.#waiting].filter((waiter) => waiter.dueAt <= now + waiter.pauseMs / 4)
    if (due.length === 0) return
    this.#polledAtMs = now
    for (const waiter of due) {
      waiter.dueAt = Number.POSITIVE_INFINITY
      waiter.isOutdated = false
      waiter.polls++
    }
    this.#rounds++
    void this.#poll(due)
      .catch(() => {})
      .finally(() => {
        this.#rounds--
        for (const waiter of due)
          plan(waiter, waiter.isOutdated ? this.#options.firstPollMs : this.#nextPause(waiter))
        this.#arm()
      })
  }

  /** Requests the receipts of these hashes in one batch. An error of the node ends the round but not the waits. */
  async #poll(due: readonly Waiter[]): Promise<void> {
    const { rpc, confirmations } = this.#options
    const calls = due.map(({ hash }) => ({ method: 'eth_getTransactionReceipt', params: [hash] }))
    if (confirmations > 1) calls.push({ method: 'eth_blockNumber', params: [] })
    const responses = await rpc.batch(calls)
    const height = confirmations > 1 ? responses.at(-1) : undefined
    for (const [i, waiter] of due.entries()) {
      const response = responses[i]
      const receipt = response?.ok ? readReceipt(response.result, waiter.hash) : undefined
      if (receipt === undefined) continue
      const depth = height?.ok ? Number(height.result) - Number(receipt.blockNumber) + 1 : 1
      if (depth < confirmations) continue
      if (waiter.polls > 1 && waiter.sinceMs > this.#announcedAtMs) this.#heads?.doubt()
      waiter.end(receipt)
    }
  }

  /**
   * On a new block, polls for all waiters at once. A waiter whose poll is in flight is polled again afterwards, but not before the
   * shortest time between polls.
   */
  #onHead(): void {
    const { firstPollMs } = this.#options
    this.#announcedAtMs = performance.now()
    const dueAt = Math.max(this.#announcedAtMs, this.#polledAtMs + firstPollMs)
    for (const waiter of this.#waiting) {
      if (!Number.isFinite(waiter.dueAt)) waiter.isOutdated = true
      else if (waiter.dueAt > dueAt) {
        waiter.dueAt = dueAt
        waiter.pauseMs = firstPollMs / MISSED_TIMES
      }
    }
    this.#arm()
  }
}

function plan(waiter: Waiter, pauseMs: number): void {
  waiter.pauseMs = pauseMs
  waiter.dueAt = performance.now() + pauseMs
}

/**
 * Number of settlements whose median is the typical time. They are few enough to follow the chain, and too many for one to change
 * the median.
 */
const REMEMBERED = 9
/** Polls per typical time, around the moment when a transaction usually lands. */
const POLLS_PER_TYPICAL = 8

/**
 * Decides when to poll for a sent transaction. It polls often around the chain's typical time and rarely later. Before anything has
 * landed, polls start at once and the pause doubles each time. With `firstMs` 20 and `maxMs` 1,000 it polls at 20, 40, 80, 160,
 * 320, 640, 1,280 ms, then once a second. Once the typical time is known, the first poll is at half of it. Polls become denser up
 * to the typical time and sparser after it. The typical time is a median, because a buyer can arrange a transaction that never
 * lands. With a mean, that transaction would delay the polls of all buyers.
 */
export class PollPace {
  readonly #firstMs: number
  readonly #maxMs: number
  readonly #lately: number[] = []
  #typicalMs: number | undefined

  /**
   * @param firstMs shortest time between two polls, and before the first, in ms
   * @param maxMs longest time between two polls, in ms; at least `firstMs`
   */
  constructor(firstMs: number, maxMs: number) {
    this.#firstMs = firstMs
    this.#maxMs = Math.max(firstMs, maxMs)
  }

  /** Median time from sending to confirmation of recent settlements, in ms; undefined before the first. */
  get typicalMs(): number | undefined {
    return this.#typicalMs
  }

  /** Pause before the next poll, given the time since the transaction was sent, both in ms. */
  gapMs(ageMs: number): number {
    const typicalMs = this.#typicalMs ?? 0
    const aheadMs = typicalMs - ageMs
    const minMs = Math.max(this.#firstMs, typicalMs / POLLS_PER_TYPICAL)
    return Math.min(this.#maxMs, Math.max(minMs, aheadMs > 0 ? aheadMs / 2 : -aheadMs))
  }

  /** Records how long a transaction took to land, or how long the settler waited if it did not land. */
  note(ms: number): void {
    this.#lately.push(ms)
    if (this.#lately.length > REMEMBERED) this.#lately.shift()
    this.#typicalMs = this.#lately.toSorted((a, b) => a - b)[this.#lately.length >> 1]
  }
}

/** A transaction is overdue after this time in ms, and after a multiple of the typical time if that is longer. */
const MIN_OVERDUE_MS = 2_000
const OVERDUE_USUAL_TIMES = 4

export interface LandingDeps {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  /** The account that signed the transaction. */
  readonly account: {
    mined(attempt: SettlementAttempt): void
    recheck(): void
    repair(): Promise<void>
  }
  readonly receipts: ReceiptWatch
  readonly syncSend: SyncSend
}

/** A signed transaction that was sent, for one payment or several. */
export interface Sent {
  readonly attempt: SettlementAttempt
  /** Number of payments in the transaction. */
  readonly payments: number
  readonly receipt: Promise<Receipt | undefined>
}

/** Sends the stored bytes of one key until the chain has them. This class never signs. */
export class Landing {
  readonly #deps: LandingDeps
  #repairedAtMs = Number.NEGATIVE_INFINITY

  constructor(deps: LandingDeps) {
    this.#deps = deps
  }

  /**
   * Sends a stored transaction and waits until it has its confirmations.
   * @returns the receipt, or undefined when the outcome is not known in time and recovery has to find it. Never rejects.
   */
  async land(attempt: SettlementAttempt): Promise<Receipt | undefined> {
    const { options, rpc, account, receipts } = this.#deps
    const { network, log, firstPollMs, pollMs, receiptTimeoutMs } = options
    const { transaction } = attempt
    const leavePool = this.#keepInPool()
    try {
      const endMs = performance.now() + receiptTimeoutMs
      const leftMs = () => Math.max(firstPollMs, endMs - performance.now())
      const shortMs = () => Math.min(pollMs, leftMs())
      // After an unclear broadcast the receipt may already exist, so the first poll is at once and not at the typical time.
      let { sent, receipt } = await this.#send(attempt)
      receipt ??=
        sent.taken === 'yes'
          ? await receipts.wait(transaction, leftMs())
          : await receipts.wait(transaction, shortMs(), firstPollMs)
      if (receipt === undefined && sent.taken !== 'yes') {
        if (sent.taken !== 'unknown') {
          log.error(
            { network, transaction, taken: sent.taken, node: sent.message },
            'a node refused a settlement',
          )
        }
        // Sends the same bytes, because a newly signed transaction could land as well and charge the buyer twice.
        sent = await broadcast(rpc, attempt.bytes)
        const isSent = sent.taken === 'yes' || sent.taken === 'unknown'
        receipt = isSent
          ? await receipts.wait(transaction, leftMs())
          : await receipts.wait(transaction, shortMs(), firstPollMs)
      }
      if (receipt !== undefined) {
        account.mined(attempt)
        return receipt
      }
      if (sent.taken === 'nonce_used' || sent.taken === 'nonce_contested') account.recheck()
    } catch (error) {
      log.warn({ network, transaction, error: String(error) }, 'the outcome of a settlement is not known yet')
    } finally {
      leavePool()
    }
    void account.repair()
    return undefined
  }

  /** The first broadcast. Returns the receipt as well if the node sent it at once and it has enough confirmations. */
  async #send({ bytes, transaction }: SettlementAttempt) {
    const { options, rpc, receipts, syncSend } = this.#deps
    const startedMs = performance.now()
    const waitMs = Math.min(this.#overdueMs(), options.receiptTimeoutMs)
    const response = await (syncSend.send(bytes, transaction, waitMs) ?? broadcast(rpc, bytes))
    if (!('receipt' in response)) return { sent: response }
    const sent: BroadcastResult = { taken: 'yes', isKnown: false }
    // The receipt proves one block only, so the watch waits for the other confirmations.
    if (options.confirmations > 1) return { sent }
    receipts.note(performance.now() - startedMs)
    return { sent, receipt: response.receipt }
  }

  /**
   * A node can accept a broadcast and then lose it, and every later transaction waits behind its nonce. So while a transaction is
   * overdue, it is sent again if the pool lacks it. All waits share these checks, which become less frequent for each transaction.
   * @returns a function that ends the checks
   */
  #keepInPool(): () => void {
    const checkIn = (ms: number): NodeJS.Timeout =>
      setTimeout(() => {
        timer = checkIn(2 * ms)
        if (performance.now() - this.#repairedAtMs < MIN_OVERDUE_MS) return
        this.#repairedAtMs = performance.now()
        void this.#deps.account.repair()
      }, ms)
    let timer = checkIn(this.#overdueMs())
    return () => clearTimeout(timer)
  }

  #overdueMs(): number {
    return Math.max(MIN_OVERDUE_MS, OVERDUE_USUAL_TIMES * (this.#deps.receipts.usualMs ?? 0))
  }
}
