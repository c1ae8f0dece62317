import type { Log } from '../../../core/ports/log.ts'
import type { Commitment, TransactionError } from './simulate.ts'

const reopenFirstMs = 1_000
const reopenMaxMs = 30_000

export interface SignatureSocketOptions {
  readonly url: string
  readonly commitment: Commitment
  readonly log: Log
  /** Called once a signature has reached the commitment; `err` is null when the transaction succeeded. */
  readonly onResult: (signature: string, err: TransactionError) => void
}

/**
 * Hears of signatures over WebSocket (`signatureSubscribe`), sooner than by asking. It is a help and no more: nothing
 * depends on it, and whoever waits also asks over HTTP, if less often while this is open.
 */
export interface SignatureSocket {
  /** True while answers can be expected from it. */
  readonly isOpen: boolean
  watch(signature: string): void
  /**
   * A signature was found by asking that this should have told of long before: the connection is given up, and until a new
   * one has told of something, {@link isOpen} is false. Connections die without a word behind proxies and NAT.
   */
  doubt(): void
  unwatch(signature: string): void
  close(): void
}

/** Opens with the first signature, and again after a loss while somebody waits. */
export function createSignatureSocket(options: SignatureSocketOptions): SignatureSocket {
  const { url, commitment, log, onResult } = options
  const watched = new Set<string>()
  const asked = new Map<number, string>()
  const subscribed = new Map<number, string>()
  let socket: WebSocket | undefined
  let isOpen = false
  let isTrusted = true
  let isClosed = false
  let lastId = 0
  let reopenMs = reopenFirstMs
  let reopenTimer: NodeJS.Timeout | undefined

  const subscribe = (signature: string) => {
    const id = ++lastId
    asked.set(id, signature)
    socket?.send(
      JSON.stringify({
        jsonrpc: '2.0',
        id,
        method: 'signatureSubscribe',
        params: [signature, { commitment }],
      }),
    )
  }
  const unsubscribe = (subscription: number) => {
    if (!isOpen) return
    const id = ++lastId
    socket?.send(
      JSON.stringify({ jsonrpc: '2.0', id, method: 'signatureUnsubscribe', params: [subscription] }),
    )
  }
  const hear = (text: unknown) => {
    const message = parse(text)
    const { id, result, params } = message
    const signature = typeof id === 'number' ? asked.get(id) : undefined
    if (signature !== undefined) {
      asked.delete(id as number)
      if (typeof result === 'number') subscribed.set(result, signature)
      return
    }
    // The wait was over before the node had answered.
    if (typeof id === 'number' && typeof result === 'number') {
      unsubscribe(result)
      return
    }
    const subscription = params?.subscription
    const told = typeof subscription === 'number' ? subscribed.get(subscription) : undefined
    const value = params?.result?.value
    // With `receivedNotification` the value is a string; it is not asked for.
    if (told === undefined || typeof value !== 'object' || value === null || !('err' in value)) return
    subscribed.delete(subscription as number)
    isTrusted = true
    if (watched.delete(told)) onResult(told, value.err)
  }
  const lose = (lost: WebSocket) => {
    if (socket !== lost) return
    socket = undefined
    isOpen = false
    asked.clear()
    subscribed.clear()
    if (isClosed || watched.size === 0) return
    log.debug({}, 'the WebSocket to the Solana node was lost; statuses are asked for meanwhile')
    reopenTimer = setTimeout(open, reopenMs)
    reopenMs = Math.min(reopenMs * 2, reopenMaxMs)
  }
  const open = () => {
    reopenTimer = undefined
    if (socket !== undefined || isClosed) return
    const opening = new WebSocket(url)
    socket = opening
    opening.addEventListener('open', () => {
      isOpen = true
      reopenMs = reopenFirstMs
      for (const signature of watched) subscribe(signature)
    })
    opening.addEventListener('message', ({ data }) => hear(data))
    opening.addEventListener('close', () => lose(opening))
    opening.addEventListener('error', () => lose(opening))
  }

  return {
    get isOpen() {
      return isOpen && isTrusted
    },
    watch(signature) {
      watched.add(signature)
      if (isOpen) subscribe(signature)
      else if (reopenTimer === undefined) open()
    },
    doubt() {
      const doubted = socket
      if (doubted === undefined || !isTrusted) return
      isTrusted = false
      lose(doubted)
      doubted.close()
    },
    unwatch(signature) {
      if (!watched.delete(signature)) return
      for (const [id, of] of asked) if (of === signature) asked.delete(id)
      for (const [subscription, of] of subscribed) {
        if (of !== signature) continue
        subscribed.delete(subscription)
        unsubscribe(subscription)
      }
    },
    close() {
      isClosed = true
      clearTimeout(reopenTimer)
      watched.clear()
      socket?.close()
    },
  }
}

interface SocketMessage {
  readonly id?: unknown
  readonly result?: unknown
  readonly params?: { readonly subscription?: unknown; readonly result?: { readonly value?: unknown } }
}

function parse(text: unknown): SocketMessage {
  try {
    const message: unknown = typeof text === 'string' ? JSON.parse(text) : undefined
    return typeof message === 'object' && message !== null ? message : {}
  } catch {
    return {}
  }
}
