import type { Log } from '../../../core/ports/log.ts'
import type { Rpc, WithContext } from './rpc.ts'
import { createSignatureSocket } from './signatureSocket.ts'
import type { Commitment, TransactionError } from './simulate.ts'

/** Most signatures that a node takes in one `getSignatureStatuses`. */
const maxSignatures = 256

/** Where a transaction stands, as `getSignatureStatuses` tells. */
export interface SignatureStatus {
  readonly slot: number
  readonly err: TransactionError
  readonly confirmationStatus: 'processed' | 'confirmed' | 'finalized' | null
}

export interface ConfirmerOptions {
  readonly rpc: Rpc
  readonly commitment: Commitment
  /** First question after a transaction was sent, in ms. */
  readonly firstPollMs: number
  /** Between questions, in ms. */
  readonly pollMs: number
  /** Both, while a WebSocket is open and will most likely be faster, in ms. */
  readonly pollMsWithSocket: number
  readonly wsUrl?: string | undefined
  readonly log: Log
}

/** A transaction that has reached the commitment; `err` is null when it succeeded. */
export interface Confirmation {
  readonly err: TransactionError
}

interface Waiter {
  readonly promise: Promise<Confirmation | undefined>
  finish(confirmation: Confirmation | undefined): void
}

/** Waits for signatures; all that wait share one question. */
export interface Confirmer {
  /**
   * Resolves when the transaction has reached the commitment, whether it succeeded (`err` is null) or failed, and with
   * undefined when it has not in time, was given up, or when the confirmer is closed. Never rejects.
   */
  wait(signature: string, timeoutMs: number): Promise<Confirmation | undefined>
  /** Ends the wait for a signature. */
  giveUp(signature: string): void
  close(): void
}

/** Whether a status has reached a commitment. */
export function hasReached(status: SignatureStatus, commitment: Commitment): boolean {
  // Without `err` the answer does not say how it ended.
  if (status.err === undefined) return false
  return (
    status.confirmationStatus === 'finalized' ||
    (commitment === 'confirmed' && status.confirmationStatus === 'confirmed')
  )
}

/** Asks where signatures stand; in order, null for unknown ones. */
export function askStatuses(rpc: Rpc, signatures: readonly string[], searchTransactionHistory: boolean) {
  return rpc.call<WithContext<(SignatureStatus | null)[]>>('getSignatureStatuses', signatures, {
    searchTransactionHistory,
  })
}

export function createConfirmer(options: ConfirmerOptions): Confirmer {
  const { rpc, commitment, firstPollMs, pollMs, pollMsWithSocket, wsUrl, log } = options
  const waiting = new Map<string, Waiter>()
  let isClosed = false
  let isPolling = false
  let hasNewcomer = false
  let timer: NodeJS.Timeout | undefined
  let dueMs = Number.POSITIVE_INFINITY

  const settle = (signature: string, err: TransactionError) => waiting.get(signature)?.finish({ err })
  const socket =
    wsUrl === undefined ? undefined : createSignatureSocket({ url: wsUrl, commitment, log, onResult: settle })

  const schedule = (delayMs: number) => {
    const atMs = performance.now() + delayMs
    if (isPolling) hasNewcomer = true
    // A poll that is under way plans the next one itself.
    if (isPolling || atMs >= dueMs) return
    clearTimeout(timer)
    dueMs = atMs
    timer = setTimeout(poll, delayMs)
  }
  const poll = async () => {
    dueMs = Number.POSITIVE_INFINITY
    isPolling = true
    const signatures = [...waiting.keys()]
    for (let i = 0; i < signatures.length; i += maxSignatures)
      await ask(signatures.slice(i, i + maxSignatures))
    isPolling = false
    const nextMs = hasNewcomer ? firstPollMs : pollMs
    hasNewcomer = false
    if (waiting.size > 0) schedule(socket?.isOpen ? pollMsWithSocket : nextMs)
  }
  const ask = async (signatures: readonly string[]) => {
    try {
      const { value } = await askStatuses(rpc, signatures, false)
      for (const [i, signature] of signatures.entries()) {
        const status = value[i]
        if (status != null && hasReached(status, commitment)) settle(signature, status.err)
      }
    } catch (error) {
      log.debug({ error, waiting: signatures.length }, 'the status of Solana payments could not be asked for')
    }
  }

  return {
    wait(signature, timeoutMs) {
      if (isClosed) return Promise.resolve(undefined)
      const other = waiting.get(signature)
      if (other !== undefined) return other.promise
      const { promise, resolve } = Promise.withResolvers<Confirmation | undefined>()
      const finish = (confirmation: Confirmation | undefined) => {
        clearTimeout(timeout)
        waiting.delete(signature)
        socket?.unwatch(signature)
        if (waiting.size === 0) {
          clearTimeout(timer)
          dueMs = Number.POSITIVE_INFINITY
        }
        resolve(confirmation)
      }
      const timeout = setTimeout(finish, timeoutMs, undefined)
      waiting.set(signature, { promise, finish })
      socket?.watch(signature)
      schedule(socket?.isOpen ? pollMsWithSocket : firstPollMs)
      return promise
    },
    giveUp(signature) {
      waiting.get(signature)?.finish(undefined)
    },
    close() {
      isClosed = true
      for (const { finish } of [...waiting.values()]) finish(undefined)
      clearTimeout(timer)
      socket?.close()
    },
  }
}
