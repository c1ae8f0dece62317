import type { Log } from '../../../../core/ports/log.ts'
import { createNodeSocket, type NodeMessage } from '../../nodeSocket.ts'

/** How long the connection stays open while no receipt is expected, in ms. */
const IDLE_MS = 60_000
/** Ids of the two requests of a connection. */
const chainQuestion = 1
const subscriptionQuestion = 2

export interface HeadSocketOptions {
  readonly url: string
  /** The expected chain. A node of another chain is ignored, because its blocks are unrelated. */
  readonly chainId: number
  readonly log: Log
  /**
   * Called for each new block. Also called once when the subscription begins, because the node does not announce earlier blocks.
   */
  readonly onHead: () => void
}

/**
 * Receives new blocks over WebSocket (`eth_subscribe`, `newHeads`) sooner than by polling. The connection is optional, because the
 * settler also polls for receipts over HTTP. It polls less often while the connection is open.
 */
export interface HeadSocket {
  /** True while the node announces blocks. */
  readonly isOpen: boolean
  /** Opens the connection because a receipt is expected, and reopens it when it is lost. */
  need(): void
  /** Closes the connection after a while, because no receipt is expected any more. */
  rest(): void
  /**
   * Closes the connection, because polling found a transaction whose block the node should have announced. {@link isOpen} is false
   * until a new connection has announced a block. Connections can die silently behind proxies and NAT.
   */
  doubt(): void
  close(): void
}

export function createHeadSocket({ url, chainId, log, onHead }: HeadSocketOptions): HeadSocket {
  let subscription: string | undefined
  let isTrusted = true
  let isNeeded = false
  let idleTimer: NodeJS.Timeout | undefined

  const onMessage = ({ id, result, method, params }: NodeMessage) => {
    if (id === chainQuestion && typeof result === 'string') {
      if (Number(result) === chainId) return socket.send(subscriptionQuestion, 'eth_subscribe', 'newHeads')
      log.warn(
        { expected: chainId, got: Number(result) },
        'the node at wsUrl serves another chain, so its blocks are ignored',
      )
      socket.lose(true)
    } else if (id === subscriptionQuestion && typeof result === 'string') {
      subscription = result
      onHead()
    } else if (
      subscription !== undefined &&
      method === 'eth_subscription' &&
      params?.subscription === subscription
    ) {
      isTrusted = true
      socket.praise()
      onHead()
    }
  }
  const socket = createNodeSocket({
    url,
    log,
    isNeeded: () => isNeeded,
    onOpen: () => socket.send(chainQuestion, 'eth_chainId'),
    onMessage,
    onLost() {
      subscription = undefined
    },
  })

  return {
    get isOpen() {
      return subscription !== undefined && isTrusted
    },
    need() {
      clearTimeout(idleTimer)
      isNeeded = true
      socket.open()
    },
    rest() {
      clearTimeout(idleTimer)
      idleTimer = setTimeout(() => {
        isNeeded = false
        socket.lose()
      }, IDLE_MS).unref()
    },
    doubt() {
      if (subscription === undefined || !isTrusted) return
      isTrusted = false
      socket.lose()
    },
    close() {
      clearTimeout(idleTimer)
      socket.close()
    },
  }
}
