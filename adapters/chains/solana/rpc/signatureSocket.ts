import type { Log } from '../../../../core/ports/log.ts'
import { createNodeSocket, type NodeMessage } from '../../nodeSocket.ts'
import type { Commitment, TransactionError } from '../check/simulate.ts'

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
  let isTrusted = true
  let lastId = 0

  const subscribe = (signature: string) => {
    asked.set(++lastId, signature)
    socket.ask(lastId, 'signatureSubscribe', signature, { commitment })
  }
  const unsubscribe = (subscription: number) => socket.ask(++lastId, 'signatureUnsubscribe', subscription)
  const hear = ({ id, result, params }: NodeMessage) => {
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
    socket.praise()
    if (watched.delete(told)) onResult(told, value.err)
  }
  const socket = createNodeSocket({
    url,
    log,
    isNeeded: () => watched.size > 0,
    onOpen() {
      for (const signature of watched) subscribe(signature)
    },
    onMessage: hear,
    onLost() {
      asked.clear()
      subscribed.clear()
    },
  })

  return {
    get isOpen() {
      return socket.isOpen && isTrusted
    },
    watch(signature) {
      watched.add(signature)
      if (socket.isOpen) subscribe(signature)
      else socket.open()
    },
    doubt() {
      if (!socket.isOpen || !isTrusted) return
      isTrusted = false
      socket.lose()
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
      watched.clear()
      socket.close()
    },
  }
}
