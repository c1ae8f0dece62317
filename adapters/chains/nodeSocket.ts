import { WebSocket } from 'ws'
import type { Log } from '../../core/ports/log.ts'

const REOPEN_FIRST_MS = 1_000
const REOPEN_MAX_MS = 30_000
const HANDSHAKE_MS = 10_000
/** What is subscribed to here is told in a few kilobytes. */
const MAX_MESSAGE_BYTES = 65_536

/** A JSON-RPC answer or notification, as far as anything of it is used; nothing of it is checked. */
export interface NodeMessage {
  readonly id?: unknown
  readonly result?: unknown
  readonly method?: unknown
  readonly params?: { readonly subscription?: unknown; readonly result?: { readonly value?: unknown } }
}

export interface NodeSocketOptions {
  readonly url: string
  readonly log: Log
  /** Whether somebody waits for what it tells: only then is it opened again after a loss. */
  readonly isNeeded: () => boolean
  readonly onOpen: () => void
  readonly onMessage: (message: NodeMessage) => void
  readonly onLost: () => void
}

/**
 * JSON-RPC over WebSocket to a chain's node, for subscriptions. It opens itself again, later each time that nothing came of
 * it, and a peer that has died without a word costs no descriptor.
 */
export interface NodeSocket {
  readonly isOpen: boolean
  /** Opens it, unless it is open or about to be. */
  open(): void
  /** Sends a request; nothing while it is not open. */
  ask(id: number, method: string, ...params: unknown[]): void
  /** It has told of what it is there for: after its loss the next one is opened soon. */
  praise(): void
  /** Gives the connection up; where somebody waits another is opened, with `isUseless` no sooner than need be. */
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
    // A farewell would be waited for, and whoever died without a word gives none.
    lost.terminate()
    onLost()
    if (isClosed || !isNeeded()) return
    log.debug({}, 'the WebSocket to a node was lost; it is asked over HTTP meanwhile')
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
    ask(id, method, ...params) {
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
