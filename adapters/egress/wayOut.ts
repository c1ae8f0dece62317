import type { Socket } from 'node:net'
import { isLoopback } from '../../core/http/isLoopback.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { WayOutState } from '../../core/ports/egress.ts'
import { systemError } from './systemError.ts'

/** Failures older than this say nothing about now. */
const WINDOW_MS = 30_000
/** One dead seller is a dead seller; only several at once point at our own line. */
const MIN_FAILED_ORIGINS = 2
/** Bounds the memory; more origins than this add nothing to the verdict. */
const MAX_REMEMBERED = 1024

/** Errors of a network or resolver that is not there. "Refused" is not one: a machine out there said it. */
const lineErrors = new Set([
  'EAI_AGAIN',
  'ETIMEOUT',
  'ETIMEDOUT',
  'EGRESS_TIMEOUT',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'ENETDOWN',
  'EHOSTDOWN',
  'EADDRNOTAVAIL',
  'ESERVFAIL',
])

/** This machine has nothing left to make a connection with. */
const ownErrors = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'])

/**
 * Judges whether the gateway's own way out is down, so that nobody's link is suspended for it.
 *
 * Down means: in the last 30 s at least two origins could not be reached at the level of names or routes, nothing was
 * reached, and no open connection has brought a byte since the first of those failures. A single "connection refused", TLS
 * error or unknown name does not count as down, because something out there answered. What this machine itself answered
 * (loopback) says nothing. Down it is, too, for as long after this machine had no descriptor or memory for a connection,
 * whatever others came about meanwhile.
 *
 * It is a guess, and leans towards "down" when every origin tried is truly dead: suspending late costs less than
 * suspending everybody at once.
 */
export class WayOut {
  readonly #clock: Clock
  readonly #failures = new Map<string, number>()
  /** Open connections, and the bytes each had brought when the present run of failures began. */
  readonly #open = new Map<Socket, number>()
  #lastReachedMs = Number.NEGATIVE_INFINITY
  #lastOwnErrorMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A connection came about. */
  reached(socket: Socket): void {
    if (isLoopback(socket.remoteAddress ?? '')) return
    this.#lastReachedMs = this.#clock.now()
    this.#failures.clear()
    this.#open.set(socket, socket.bytesRead)
    socket.once('close', () => this.#open.delete(socket))
  }

  /** A connection did not come about. @param error what the system said, or an `EGRESS_TIMEOUT` */
  failed(origin: string, error: unknown): void {
    const { code, address, syscall } = systemError(error)
    if (ownErrors.has(code)) this.#lastOwnErrorMs = this.#clock.now()
    if (ownErrors.has(code) || isLoopback(address)) return
    // A name server that refuses to be asked is our own, not a machine of the seller's.
    const isLine = lineErrors.has(code) || (code === 'ECONNREFUSED' && syscall.startsWith('query'))
    if (!isLine) {
      if (code !== 'ENOTFOUND') this.#lastReachedMs = this.#clock.now()
      return
    }
    if (this.#failures.size === 0)
      for (const socket of this.#open.keys()) this.#open.set(socket, socket.bytesRead)
    if (this.#failures.size < MAX_REMEMBERED || this.#failures.has(origin)) {
      this.#failures.set(origin, this.#clock.now())
    }
  }

  state(): WayOutState {
    const since = this.#clock.now() - WINDOW_MS
    for (const [origin, atMs] of this.#failures) if (atMs < since) this.#failures.delete(origin)
    if (this.#lastOwnErrorMs >= since) return 'down'
    if (this.#lastReachedMs >= since) return 'up'
    for (const [socket, bytesBefore] of this.#open) if (socket.bytesRead > bytesBefore) return 'up'
    return this.#failures.size >= MIN_FAILED_ORIGINS ? 'down' : 'unknown'
  }
}
