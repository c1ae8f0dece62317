import { WebSocket } from 'ws'
import { isLoopback } from '../../core/http/caller.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import { challengeBytes, frameTypes, MAX_FRAME_BYTES, relayPath } from '../relay/frames.ts'

/**
 * The URL for a relay's base address. It must be `wss:`, except on this machine. The content is encrypted end to end, but the
 * network in between must not learn which agent and vault communicate, and when.
 *
 * @throws Error that states what was expected
 * @example relayUrl('wss://relay.example').href // wss://relay.example/v1/relay
 */
export function relayUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'wss:' && url.protocol !== 'ws:'))
    throw new Error('expected the address of the relay as wss://host or wss://host:port')
  if (url.protocol === 'ws:' && !isLoopback(url.hostname))
    throw new Error(
      `expected wss:// for the relay ${url.host}, because plain ws:// is only for relays on this machine`,
    )
  if (url.username || url.password || url.search || url.hash)
    throw new Error('expected the address of the relay without user, query and fragment')
  url.pathname = url.pathname.replace(/\/$/, '') + relayPath
  return url
}

/** One connection to the relay. A response belongs to the connection of its request. */
export interface LinkConnection {
  /** Sends a frame. Does nothing if the connection is down. */
  send(frame: Buffer): void
}

/** The events of a link. They are called in order, and never after `close`. */
export interface LinkEvents {
  /** The link is connected, and the relay has sent its challenge. */
  onUp(connection: LinkConnection, challenge: Buffer): void
  onFrame(connection: LinkConnection, type: number, rest: Buffer): void
  /** The connection closed, or the attempt failed. Another attempt follows. */
  onDown(reason: string): void
}

export interface Backoff {
  /** The first wait, in ms. Each further wait is twice as long. */
  readonly minMs: number
  readonly maxMs: number
}

export interface LinkOptions {
  readonly url: URL
  readonly backoff?: Backoff
  /** PEM of a private certificate authority, in addition to those that Node trusts. */
  readonly ca?: string
  readonly log?: Log
}

export interface RelayLink {
  readonly isUp: boolean
  close(): Promise<void>
}

const defaultBackoff: Backoff = { minMs: 250, maxMs: 30_000 }
/** The relay pings every 30 s. After this long without a ping, in ms, the connection counts as dead. */
const QUIET_MS = 75_000
const HANDSHAKE_MS = 10_000

/** Keeps one connection to a relay. It reconnects whenever the connection is lost, more slowly after each failure. */
export function startRelayLink(options: LinkOptions, events: LinkEvents): RelayLink {
  const { url, backoff = defaultBackoff, ca, log = silentLog } = options
  let socket: WebSocket | undefined
  let isUp = false
  let isClosed = false
  let failures = 0
  let retry: NodeJS.Timeout | undefined

  const connect = (): void => {
    const own = new WebSocket(url, {
      maxPayload: MAX_FRAME_BYTES,
      perMessageDeflate: false,
      handshakeTimeout: HANDSHAKE_MS,
      ...(ca === undefined ? {} : { ca }),
    })
    socket = own
    let reason = 'the connection was lost'
    let wasGreeted = false
    const quiet = setTimeout(() => own.terminate(), QUIET_MS).unref()
    const connection: LinkConnection = {
      send(frame) {
        if (own.readyState === WebSocket.OPEN) own.send(frame, { binary: true })
      },
    }
    own.on('ping', () => quiet.refresh())
    own.on('error', (error) => (reason = error.message))
    own.on('message', (data, isBinary) => {
      if (isClosed || !isBinary) return
      quiet.refresh()
      const bytes = data as Buffer
      const rest = bytes.subarray(1)
      if (!wasGreeted) {
        if (bytes[0] !== frameTypes.challenge || rest.byteLength !== challengeBytes) return own.terminate()
        wasGreeted = true
        isUp = true
        return events.onUp(connection, rest)
      }
      failures = 0 // the relay has accepted the connection
      events.onFrame(connection, bytes[0]!, rest)
    })
    own.on('close', (code, text) => {
      clearTimeout(quiet)
      isUp = false
      if (isClosed) return
      if (text.byteLength > 0) reason = `${text.toString()} (${code})`
      const waitMs = waitFor(failures++, backoff)
      log.debug({ relay: url.host, reason, waitMs }, 'not connected to the relay')
      retry = setTimeout(connect, waitMs)
      events.onDown(reason)
    })
  }
  connect()

  return {
    get isUp() {
      return isUp
    },
    async close() {
      if (isClosed) return
      isClosed = true
      isUp = false
      clearTimeout(retry)
      const own = socket!
      if (own.readyState === WebSocket.CLOSED) return
      const gone = new Promise<void>((resolve) => own.once('close', () => resolve()))
      if (own.readyState === WebSocket.OPEN) own.close(1001)
      else own.terminate()
      const impatience = setTimeout(() => own.terminate(), 1000)
      await gone
      clearTimeout(impatience)
    },
  }
}

/** A random wait between half and all of the doubled time, so that clients of a relay do not all reconnect at once. */
function waitFor(failures: number, { minMs, maxMs }: Backoff): number {
  const full = Math.min(maxMs, minMs * 2 ** Math.min(failures, 20))
  return Math.round(full * (0.5 + Math.random() / 2))
}
