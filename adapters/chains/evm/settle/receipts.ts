import { type Receipt, readReceipt } from '../../../../core/evm/transferProof.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { createLookPace, type LookPace } from '../../lookPace.ts'
import { createHeadSocket } from '../rpc/headSocket.ts'

/** Looks on their way at once; whoever becomes due meanwhile waits for one of them to end. */
const MAX_ROUNDS = 2
/** A block can be told of before the node has its receipts: the looks after it come at once, then so much rarer each. */
const MISSED_TIMES = 4

export interface ReceiptWatchOptions {
  readonly rpc: Rpc
  /** Shortest time between two looks, and before the first, in ms. */
  readonly firstPollMs: number
  /** Longest time between two looks, in ms. */
  readonly pollMs: number
  /** Blocks, the receipt's own included, before it counts. */
  readonly confirmations: number
  /** A node that tells of new blocks; then they say when to look, and the looks by the clock are rarer. */
  readonly ws?: { readonly url: string; readonly chainId: number } | undefined
  readonly log: Log
}

/**
 * Waits for receipts; everybody who waits shares one request a round. It looks when, by what this chain took lately, a
 * receipt can be there ({@link LookPace}). While nobody waits nothing is asked.
 */
export interface ReceiptWatch {
  /**
   * The receipt once it is deep enough, or undefined after `timeoutMs` or {@link ReceiptWatch.close}.
   *
   * @param firstLookMs when to look first, in ms from now, where more is known of it than what is usual
   */
  wait(hash: string, timeoutMs: number, firstLookMs?: number): Promise<Receipt | undefined>
  /** What transactions took lately until they counted, in ms; undefined before the first. */
  readonly usualMs: number | undefined
  /** A transaction took so long, as somebody else was told. */
  note(tookMs: number): void
  close(): void
}

export function createReceiptWatch(options: ReceiptWatchOptions): ReceiptWatch {
  const { rpc, firstPollMs, pollMs, confirmations, ws, log } = options
  const waiting = new Set<Waiter>()
  let timer: NodeJS.Timeout | undefined
  let rounds = 0
  let isClosed = false
  const pace: LookPace = createLookPace({ firstMs: firstPollMs, maxMs: pollMs })

  const nextPause = ({ sinceMs, pauseMs }: Waiter): number => {
    // The first look is made all the same: where blocks are instant, the block was told of before the wait began.
    if (heads?.isOpen && pauseMs > 0) return Math.min(MISSED_TIMES * pauseMs, pollMs)
    return pace.gapMs(pauseMs === 0 ? 0 : performance.now() - sinceMs)
  }
  const plan = (waiter: Waiter, pauseMs: number): void => {
    waiter.pauseMs = pauseMs
    waiter.dueAt = performance.now() + pauseMs
  }

  /** Asks for these hashes in one batch. A fault of the node ends the round, not the wait. */
  const look = async (due: readonly Waiter[]): Promise<void> => {
    const calls = due.map(({ hash }) => ({ method: 'eth_getTransactionReceipt', params: [hash] }))
    if (confirmations > 1) calls.push({ method: 'eth_blockNumber', params: [] })
    const answers = await rpc.batch(calls)
    const height = confirmations > 1 ? answers.at(-1) : undefined
    for (const [i, waiter] of due.entries()) {
      const answer = answers[i]
      const receipt = answer?.ok ? readReceipt(answer.result, waiter.hash) : undefined
      if (receipt === undefined) continue
      const depth = height?.ok ? Number(height.result) - Number(receipt.blockNumber) + 1 : 1
      if (depth < confirmations) continue
      if (waiter.looks > 1 && waiter.sinceMs > toldAtMs) heads?.doubt()
      waiter.end(receipt)
    }
  }

  const round = (): void => {
    const now = performance.now()
    // Whoever is due soon comes along: one request is cheaper than two.
    const due = [...waiting].filter((waiter) => waiter.dueAt <= now + waiter.pauseMs / 4)
    if (due.length === 0) return
    lookedAtMs = now
    for (const waiter of due) {
      waiter.dueAt = Number.POSITIVE_INFINITY
      waiter.isOutdated = false
      waiter.looks++
    }
    rounds++
    void look(due)
      .catch(() => {})
      .finally(() => {
        rounds--
        for (const waiter of due) plan(waiter, waiter.isOutdated ? firstPollMs : nextPause(waiter))
        arm()
      })
  }

  /** Sets the one timer for whoever is due first. Waiters that are being asked about are never due. */
  const arm = (): void => {
    clearTimeout(timer)
    if (rounds >= MAX_ROUNDS) return
    let first = Number.POSITIVE_INFINITY
    for (const waiter of waiting) first = Math.min(first, waiter.dueAt)
    if (!Number.isFinite(first)) return
    timer = setTimeout(
      () => {
        round()
        arm()
      },
      Math.max(0, first - performance.now()),
    )
  }

  /** A block: everybody looks now, and whoever is being asked about looks again; no sooner than looks may be apart. */
  const onHead = (): void => {
    toldAtMs = performance.now()
    const dueAt = Math.max(toldAtMs, lookedAtMs + firstPollMs)
    for (const waiter of waiting) {
      if (!Number.isFinite(waiter.dueAt)) waiter.isOutdated = true
      else if (waiter.dueAt > dueAt) {
        waiter.dueAt = dueAt
        waiter.pauseMs = firstPollMs / MISSED_TIMES
      }
    }
    arm()
  }
  /** When the last block was told of, and when a look last began. */
  let toldAtMs = 0
  let lookedAtMs = Number.NEGATIVE_INFINITY
  const heads = ws === undefined ? undefined : createHeadSocket({ ...ws, log, onHead })

  return {
    get usualMs() {
      return pace.typicalMs
    },
    note: pace.note,
    wait(hash, timeoutMs, firstLookMs) {
      if (isClosed) return Promise.resolve(undefined)
      return new Promise((resolve) => {
        const waiter: Waiter = {
          hash,
          sinceMs: performance.now(),
          pauseMs: 0,
          dueAt: 0,
          isOutdated: false,
          looks: 0,
          end(receipt) {
            if (!waiting.delete(waiter)) return
            clearTimeout(limit)
            if (waiting.size === 0) {
              clearTimeout(timer)
              heads?.rest()
            }
            if (receipt !== undefined) pace.note(performance.now() - waiter.sinceMs)
            resolve(receipt)
          },
        }
        const limit = setTimeout(() => waiter.end(undefined), timeoutMs)
        plan(waiter, firstLookMs ?? nextPause(waiter))
        waiting.add(waiter)
        heads?.need()
        arm()
      })
    },
    close() {
      isClosed = true
      for (const waiter of [...waiting]) waiter.end(undefined)
      heads?.close()
    },
  }
}

interface Waiter {
  readonly hash: string
  /** On the monotonic clock, in milliseconds, as is `dueAt`. */
  readonly sinceMs: number
  /** Before the look that is planned, in milliseconds; 0 before the first. */
  pauseMs: number
  dueAt: number
  /** A block came while it was being asked about. */
  isOutdated: boolean
  looks: number
  end(receipt: Receipt | undefined): void
}
