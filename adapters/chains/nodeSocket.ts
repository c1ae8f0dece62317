import { WebSocket } from 'ws'
import type { Log } from '../../core/ports/log.ts'

const REOPEN_FIRST_MS = 1_000
const REOPEN_MAX_MS = 30_000
const HANDSHAKE_MS = 10_000
/** Largest message, in bytes. The messages of the gateway's subscriptions take a few kilobytes. */
const MAX_MESSAGE_BYTES = 65_536

/** A JSON-RPC response or notification, with the fields that are used. The type of a field is not checked. */
export interface NodeMessage {
  readonly id?: unknown
  readonly result?: unknown
  readonly method?: unknown
  readonly params?: { readonly subscription?: unknown; readonly result?: { readonly value?: unknown } }
}

export interface NodeSocketOptions {
  readonly url: string
  readonly log: Log
  /** Whether the caller needs messages. The socket reopens after a loss only then. */
  readonly isNeeded: () => boolean
  readonly onOpen: () => void
  readonly onMessage: (message: NodeMessage) => void
  readonly onLost: () => void
}

/**
 * A JSON-RPC connection over WebSocket to a chain's node, for subscriptions. The socket reopens itself, after a longer delay each
 * time that a connection was useless. A connection whose peer died silently takes no file descriptor.
 */
export interface NodeSocket {
  readonly isOpen: boolean
  /** Opens the connection, unless it is open or opening. */
  open(): void
  /** Sends a request, if the connection is open. */
  send(id: number, method: string, ...params: unknown[]): void
  /** Records that the connection was useful, so that after a loss the next one is opened soon. */
  praise(): void
  /**
   * Closes the connection. If the caller needs messages, another connection is opened. After a useless connection (`isUseless`), it
   * is opened after the full delay.
   */
  lose(isUseless?: boolean): void
  close(): void
}

export function createNodeSocket(options: NodeSocketOptions): NodeSocket {
  const { url, log, isNeeded, onOpen, onMessage, onLost } = options
  let socket: WebSocket | undefined
  let isOpen = false
  let isClosed = false
  let reopenMs = REOPEN_FIRST_MS
  let reopenTimer: NodeJS.Timeout | undefined

  const lose = (lost: WebSocket) => {
    if (socket !== lost) return
    socket = undefined
    isOpen = false
    // A closing handshake would wait for the peer's response, which a dead peer never sends.
    lost.terminate()
    onLost()
    if (isClosed || !isNeeded()) return
    log.debug({}, 'the WebSocket to a node was lost, so the node is polled over HTTP')
    reopenTimer = setTimeout(reopen, reopenMs)
    reopenMs = Math.min(reopenMs * 2, REOPEN_MAX_MS)
  }
  const reopen = () => {
    reopenTimer = undefined
    if (isNeeded()) open()
  }
  const open = () => {
    if (socket !== undefined || reopenTimer !== undefined || isClosed) return
    const opening = new WebSocket(url, { handshakeTimeout: HANDSHAKE_MS, maxPayload: MAX_MESSAGE_BYTES })
    socket = opening
    opening.addEventListener('open', () => {
      isOpen = true
      onOpen()
    })
    opening.addEventListener('message', ({ data }) => {
      if (socket === opening) onMessage(parse(data))
    })
    opening.addEventListener('close', () => lose(opening))
    opening.addEventListener('error', () => lose(opening))
  }

  return {
    get isOpen() {
      return isOpen
    },
    open,
    send(id, method, ...params) {
      if (isOpen) socket!.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
    },
    praise() {
      reopenMs = REOPEN_FIRST_MS
    },
    lose(isUseless = false) {
      if (isUseless) reopenMs = REOPEN_MAX_MS
      if (socket !== undefined) lose(socket)
    },
    close() {
      isClosed = true
      clearTimeout(reopenTimer)
      if (socket !== undefined) lose(socket)
    },
  }
}

function parse(text: unknown): NodeMessage {
  try {
    const message: unknown = typeof text === 'string' ? JSON.parse(text) : undefined
    return typeof message === 'object' && message !== null ? message : {}
  } catch {
    return {}
  }
}
