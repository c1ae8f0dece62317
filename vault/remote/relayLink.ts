import { WebSocket } from 'ws'
import { type Log, silentLog } from '../../core/ports/log.ts'
import { challengeBytes, frameTypes, MAX_FRAME_BYTES } from '../relay/frames.ts'

/** One connection to the relay. Answers belong to the connection their question came on. */
export interface LinkConnection {
  /** Does nothing once the connection is down. */
  send(frame: Buffer): void
}

/** What happens on a link; all are called in order, never after `close`. */
export interface LinkEvents {
  /** Connected; the relay has sent its challenge. */
  onUp(connection: LinkConnection, challenge: Buffer): void
  onFrame(connection: LinkConnection, type: number, rest: Buffer): void
  /** The connection is gone, or the attempt failed; another follows. */
  onDown(reason: string): void
}

export interface Backoff {
  /** The first wait in milliseconds; each next one is twice as long. */
  readonly minMs: number
  readonly maxMs: number
}

export interface LinkOptions {
  readonly url: URL
  readonly backoff?: Backoff
  /** PEM of a certificate authority for a relay with a certificate of its own, beside those that Node knows. */
  readonly ca?: string
  readonly log?: Log
}

export interface RelayLink {
  readonly isUp: boolean
  close(): Promise<void>
}

const defaultBackoff: Backoff = { minMs: 250, maxMs: 30_000 }
/** The relay pings every 30 s. This long without, and the connection is dead though nobody said so. */
const QUIET_MS = 75_000
const HANDSHAKE_MS = 10_000

/** Keeps one connection to a relay, and connects again whenever it is lost, more slowly each time it fails. */
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
      failures = 0 // the relay took us
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

/** Between half and all of the doubled wait, so that many who lost the same relay do not come back at once. */
function waitFor(failures: number, { minMs, maxMs }: Backoff): number {
  const full = Math.min(maxMs, minMs * 2 ** Math.min(failures, 20))
  return Math.round(full * (0.5 + Math.random() / 2))
}
