import { WebSocket } from 'ws'
import type { Log } from '../../../core/ports/log.ts'

const reopenFirstMs = 1_000
const reopenMaxMs = 30_000
/** A connection that nobody has needed for so long is given back. */
const idleMs = 60_000
const handshakeMs = 10_000
/** A block's header is about two kilobytes. */
const maxMessageBytes = 65_536
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
  let socket: WebSocket | undefined
  let subscription: string | undefined
  let isTrusted = true
  let isNeeded = false
  let isClosed = false
  let reopenMs = reopenFirstMs
  let reopenTimer: NodeJS.Timeout | undefined
  let idleTimer: NodeJS.Timeout | undefined

  const ask = (from: WebSocket, id: number, method: string, ...params: string[]) =>
    from.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))

  const hear = (from: WebSocket, text: unknown) => {
    const { id, result, method, params } = parse(text)
    if (id === chainQuestion && typeof result === 'string') {
      if (Number(result) === chainId) return ask(from, subscriptionQuestion, 'eth_subscribe', 'newHeads')
      log.warn(
        { expected: chainId, got: Number(result) },
        'the node at wsUrl serves another chain; its blocks are not listened to',
      )
      reopenMs = reopenMaxMs
      lose(from)
    } else if (id === subscriptionQuestion && typeof result === 'string') {
      subscription = result
      onHead()
    } else if (
      subscription !== undefined &&
      method === 'eth_subscription' &&
      params?.subscription === subscription
    ) {
      isTrusted = true
      reopenMs = reopenFirstMs
      onHead()
    }
  }
  const lose = (lost: WebSocket) => {
    if (socket !== lost) return
    socket = undefined
    subscription = undefined
    // A farewell would be waited for, and whoever died without a word gives none.
    lost.terminate()
    if (isClosed || !isNeeded) return
    log.debug({}, 'the WebSocket to the EVM node was lost; receipts are asked for meanwhile')
    reopenTimer = setTimeout(open, reopenMs)
    reopenMs = Math.min(reopenMs * 2, reopenMaxMs)
  }
  const open = () => {
    reopenTimer = undefined
    if (socket !== undefined || isClosed || !isNeeded) return
    const opening = new WebSocket(url, { handshakeTimeout: handshakeMs, maxPayload: maxMessageBytes })
    socket = opening
    opening.addEventListener('open', () => ask(opening, chainQuestion, 'eth_chainId'))
    opening.addEventListener('message', ({ data }) => {
      if (socket === opening) hear(opening, data)
    })
    opening.addEventListener('close', () => lose(opening))
    opening.addEventListener('error', () => lose(opening))
  }
  const end = () => {
    clearTimeout(reopenTimer)
    clearTimeout(idleTimer)
    reopenTimer = undefined
    isNeeded = false
    if (socket !== undefined) lose(socket)
  }

  return {
    get isOpen() {
      return subscription !== undefined && isTrusted
    },
    need() {
      clearTimeout(idleTimer)
      isNeeded = true
      if (reopenTimer === undefined) open()
    },
    rest() {
      clearTimeout(idleTimer)
      idleTimer = setTimeout(end, idleMs).unref()
    },
    doubt() {
      if (subscription === undefined || !isTrusted) return
      isTrusted = false
      lose(socket!)
    },
    close() {
      isClosed = true
      end()
    },
  }
}

interface SocketMessage {
  readonly id?: unknown
  readonly result?: unknown
  readonly method?: unknown
  readonly params?: { readonly subscription?: unknown }
}

function parse(text: unknown): SocketMessage {
  try {
    const message: unknown = typeof text === 'string' ? JSON.parse(text) : undefined
    return typeof message === 'object' && message !== null ? message : {}
  } catch {
    return {}
  }
}
