import type { Log } from '../../../../core/ports/log.ts'
import { createNodeSocket, type NodeMessage } from '../../nodeSocket.ts'

/** A connection that nobody has needed for so long is given back. */
const IDLE_MS = 60_000
/** Ids of the two requests of a connection. */
const chainQuestion = 1
const subscriptionQuestion = 2

export interface HeadSocketOptions {
  readonly url: string
  /** Blocks of another chain say nothing about this one: a node that serves it is not listened to. */
  readonly chainId: number
  readonly log: Log
  /** Called for each new block, and once when the subscription begins: what was mined before is not told of. */
  readonly onHead: () => void
}

/**
 * Hears of new blocks over WebSocket (`eth_subscribe`, `newHeads`), sooner than by asking. It is a help and no more:
 * nothing depends on it, and whoever waits also asks over HTTP, if less often while this is open.
 */
export interface HeadSocket {
  /** True while blocks are told. */
  readonly isOpen: boolean
  /** Somebody waits: opens the connection, and opens it again after a loss. */
  need(): void
  /** Nobody waits any more: it is closed after a while. */
  rest(): void
  /**
   * A transaction was found by asking whose block this should have told of: the connection is given up, and until a new
   * one has told of a block {@link isOpen} is false. Connections die without a word behind proxies and NAT.
   */
  doubt(): void
  close(): void
}

export function createHeadSocket({ url, chainId, log, onHead }: HeadSocketOptions): HeadSocket {
  let subscription: string | undefined
  let isTrusted = true
  let isNeeded = false
  let idleTimer: NodeJS.Timeout | undefined

  const hear = ({ id, result, method, params }: NodeMessage) => {
    if (id === chainQuestion && typeof result === 'string') {
      if (Number(result) === chainId) return socket.ask(subscriptionQuestion, 'eth_subscribe', 'newHeads')
      log.warn(
        { expected: chainId, got: Number(result) },
        'the node at wsUrl serves another chain; its blocks are not listened to',
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
    onOpen: () => socket.ask(chainQuestion, 'eth_chainId'),
    onMessage: hear,
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
