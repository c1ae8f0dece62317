import type { Log } from '../../../../core/ports/log.ts'
import { createNodeSocket, type NodeMessage } from '../../nodeSocket.ts'
import type { TransactionError } from '../check/simulation.ts'
import type { Commitment } from './nodes.ts'

export interface SignatureSocketOptions {
  readonly url: string
  readonly commitment: Commitment
  readonly log: Log
  /** Called once a signature has reached the commitment. `err` is null when the transaction succeeded. */
  readonly onResult: (signature: string, err: TransactionError) => void
}

/**
 * Receives the status of signatures over WebSocket (`signatureSubscribe`) sooner than by polling. The connection is optional,
 * because the settler also polls over HTTP. It polls less often while the connection is open.
 */
export interface SignatureSocket {
  /** True while notifications can be expected. */
  readonly isOpen: boolean
  watch(signature: string): void
  /**
   * Closes the connection, because polling found a signature that the node should have reported long before. {@link isOpen} is
   * false until a new connection has reported something. Connections can die silently behind proxies and NAT.
   */
  doubt(): void
  unwatch(signature: string): void
  close(): void
}

/** The connection opens with the first signature. After a loss it reopens while a caller waits for a signature. */
export function createSignatureSocket(options: SignatureSocketOptions): SignatureSocket {
  const { url, commitment, log, onResult } = options
  const watched = new Set<string>()
  const asked = new Map<number, string>()
  const subscribed = new Map<number, string>()
  let isTrusted = true
  let lastId = 0

  const subscribe = (signature: string) => {
    asked.set(++lastId, signature)
    socket.send(lastId, 'signatureSubscribe', signature, { commitment })
  }
  const unsubscribe = (subscription: number) => socket.send(++lastId, 'signatureUnsubscribe', subscription)
  const onMessage = ({ id, result, params }: NodeMessage) => {
    const signature = typeof id === 'number' ? asked.get(id) : undefined
    if (signature !== undefined) {
      asked.delete(id as number)
      if (typeof result === 'number') subscribed.set(result, signature)
      return
    }
    // The caller stopped waiting before the node responded.
    if (typeof id === 'number' && typeof result === 'number') {
      unsubscribe(result)
      return
    }
    const subscription = params?.subscription
    const notified = typeof subscription === 'number' ? subscribed.get(subscription) : undefined
    const value = params?.result?.value
    // The value is always an object, because the subscription does not request `receivedNotification`.
    if (notified === undefined || typeof value !== 'object' || value === null || !('err' in value)) return
    subscribed.delete(subscription as number)
    isTrusted = true
    socket.praise()
    if (watched.delete(notified)) onResult(notified, value.err)
  }
  const socket = createNodeSocket({
    url,
    log,
    isNeeded: () => watched.size > 0,
    onOpen() {
      for (const signature of watched) subscribe(signature)
    },
    onMessage,
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
