import type { Rpc } from './rpc.ts'
import { type Receipt, readReceipt } from './transferProof.ts'

export interface ReceiptWatchOptions {
  readonly rpc: Rpc
  /** First look after this; chains with quick blocks have the answer by then. */
  readonly firstPollMs: number
  readonly pollMs: number
  /** Blocks, the receipt's own included, before it counts. */
  readonly confirmations: number
}

/** Waits for receipts; everybody who waits shares one request a round. */
export interface ReceiptWatch {
  /** The receipt once it is deep enough, or undefined after `timeoutMs` or {@link ReceiptWatch.close}. */
  wait(hash: string, timeoutMs: number): Promise<Receipt | undefined>
  close(): void
}

export function createReceiptWatch(options: ReceiptWatchOptions): ReceiptWatch {
  const { rpc, firstPollMs, pollMs, confirmations } = options
  const waiting = new Set<Waiter>()
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

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
      if (depth >= confirmations) waiter.end(receipt)
    }
  }

  const round = (): void => {
    const now = performance.now()
    // Whoever is due soon comes along: one request is cheaper than two.
    const due = [...waiting].filter((waiter) => waiter.dueAt <= now + pollMs / 4)
    for (const waiter of due) waiter.dueAt = Number.POSITIVE_INFINITY
    void look(due)
      .catch(() => {})
      .finally(() => {
        const next = performance.now() + pollMs
        for (const waiter of due) waiter.dueAt = next
        arm()
      })
  }

  /** Sets the one timer for whoever is due first. Waiters that are being asked about are never due. */
  const arm = (): void => {
    clearTimeout(timer)
    let first = Number.POSITIVE_INFINITY
    for (const waiter of waiting) first = Math.min(first, waiter.dueAt)
    if (Number.isFinite(first)) {
      timer = setTimeout(
        () => {
          round()
          arm()
        },
        Math.max(0, first - performance.now()),
      )
    }
  }

  return {
    wait(hash, timeoutMs) {
      if (isClosed) return Promise.resolve(undefined)
      return new Promise((resolve) => {
        const waiter: Waiter = {
          hash,
          dueAt: performance.now() + firstPollMs,
          end(receipt) {
            clearTimeout(limit)
            waiting.delete(waiter)
            resolve(receipt)
          },
        }
        const limit = setTimeout(() => waiter.end(undefined), timeoutMs)
        waiting.add(waiter)
        arm()
      })
    },
    close() {
      isClosed = true
      clearTimeout(timer)
      for (const waiter of [...waiting]) waiter.end(undefined)
    },
  }
}

interface Waiter {
  readonly hash: string
  /** On the monotonic clock, in milliseconds. */
  dueAt: number
  end(receipt: Receipt | undefined): void
}
