import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { isPaid } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { handled, type Reply } from '../../core/http/replies.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { UpstreamController, UpstreamHandler } from '../../core/ports/egress.ts'
import { BuyerLeft, ResponseRefused, ResponseTimeout, UpstreamBusy } from './failure.ts'
import { fittedHead, isDroppedFromResponse } from './headers.ts'
import type { Limits } from './options.ts'
import { type Holder, Pace, type Slot } from './slots.ts'

/** Headers by name. The value is a list if a name occurred more than once. */
type HeaderRecord = Readonly<Record<string, string | string[] | undefined>>

/** Idle time before keep-alive probes are sent, in ms. If several probes get no response, the connection is closed. */
const KEEP_ALIVE_MS = 60_000

/** Handles the seller's response to an upgrade request. 101 provides the connection, and any other status is a failure. */
export class TunnelResponse implements UpstreamHandler, Holder {
  #controller: UpstreamController | null = null
  #ended = false
  #abortedBy: Error | null = null
  readonly pace: Pace
  readonly #x: Exchange
  readonly #slot: Slot
  readonly #done: (error: Error | null) => void
  /** Deadline for connecting, interim responses and handshake together. */
  readonly #deadline: NodeJS.Timeout
  readonly #buyerClosed = () => this.#abort(new BuyerLeft())

  constructor(x: Exchange, slot: Slot, limits: Limits, done: (error: Error | null) => void) {
    this.#x = x
    this.#slot = slot
    this.pace = new Pace(limits.slowestBytesPerSecond)
    this.#done = done
    this.#deadline = setTimeout(() => this.#abort(new ResponseTimeout()), limits.headersTimeoutMs)
    x.upgrade!.socket.once('close', this.#buyerClosed)
  }

  /** Always false, because nothing is read or sent before the handshake. */
  isBehind(): boolean {
    return false
  }

  preempt(): void {
    this.#abort(new UpstreamBusy('Other calls needed the connection.'))
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller
    this.#slot.connected()
    if (this.#abortedBy !== null) controller.abort(this.#abortedBy)
  }

  onRequestUpgrade(
    _controller: UpstreamController,
    status: number,
    headers: HeaderRecord,
    socket: Duplex,
  ): void {
    socket.on('error', () => socket.destroy())
    if (!this.#end()) return void socket.destroy()
    let head = flatten(headers)
    try {
      if (isPaid(this.#x.link)) head = fittedHead(head, this.#x)
    } catch (error) {
      socket.destroy()
      return this.#done(error as Error)
    }
    this.#x.upstreamStatus = status
    this.#x.upstreamOutcome = 'answered'
    this.#x.response = {
      status,
      headers: head,
      mediaType: '',
      body: Buffer.alloc(0),
      tunnel: socket,
    }
    this.#done(null)
  }

  onResponseStart(_controller: UpstreamController, status: number): void {
    if (status < 200) return
    this.#x.upstreamStatus = status
    this.#abort(new ResponseRefused(`The seller's API refused the upgrade with status ${status}.`))
  }

  onResponseData(): void {}
  onResponseEnd(): void {}

  onResponseError(_controller: UpstreamController | null, error: Error): void {
    this.#slot.connected()
    if (this.#end()) this.#done(this.#abortedBy ?? error)
  }

  #abort(reason: Error): void {
    if (this.#ended || this.#abortedBy !== null) return
    this.#abortedBy = reason
    if (this.#controller !== null) this.#controller.abort(reason)
    else if (this.#end()) this.#done(reason)
  }

  #end(): boolean {
    if (this.#ended) return false
    this.#ended = true
    clearTimeout(this.#deadline)
    this.#x.upgrade!.socket.off('close', this.#buyerClosed)
    return true
  }
}

/**
 * How long bytes in flight to one side may take after the other side has ended, in ms. WebSockets have no half-open state, so both
 * sides then end.
 */
const LINGER_MS = 1_000

/**
 * Responds to the upgrade and joins the buyer's connection with the seller's. The call ends here. The tunnel keeps no reference to
 * the call, so that a reload does not wait for the tunnel.
 */
export function splice(x: Exchange, limits: Limits): Reply {
  const { socket: buyer } = x.upgrade!
  const seller = x.response!.tunnel!
  if (buyer.destroyed || seller.destroyed) {
    seller.destroy()
    throw new TollgateError('upstream_error', 'The call was broken off.')
  }
  buyer.write(headOf(x), 'latin1')
  x.status = 101
  const early = x.upgrade!.take()
  if (early.length > 0) seller.write(early)
  join(buyer as Socket, seller as Socket, limits)
  return handled
}

function join(buyer: Socket, seller: Socket, limits: Limits): void {
  const { tunnelIdleTimeoutMs, tunnelTimeoutMs, maxTunnelBytes } = limits
  let bytes = 0
  let ending: NodeJS.Timeout | undefined
  const close = () => {
    clearTimeout(lifetime)
    clearTimeout(ending)
    buyer.destroy()
    seller.destroy()
  }
  const lifetime = setTimeout(close, tunnelTimeoutMs)
  const count = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxTunnelBytes) close()
  }
  const endSoon = () => void (ending ??= setTimeout(close, LINGER_MS))
  for (const [side, other] of [
    [buyer, seller],
    [seller, buyer],
  ] as const) {
    side.setKeepAlive(true, KEEP_ALIVE_MS)
    // A side is idle if it neither sends nor reads, because bytes written to it restart its timer too.
    side.setTimeout(tunnelIdleTimeoutMs, close)
    side.on('error', close).on('data', count).once('end', endSoon)
    side.once('close', () => {
      // Bytes that arrived before the end are still written to the other side, within the time limit.
      if (side.readableEnded && !other.writableFinished && !other.destroyed) other.once('finish', close)
      else close()
    })
    side.pipe(other)
  }
}

function headOf(x: Exchange): string {
  const paid = [...(x.purchase?.headers ?? []), ...(x.settlement?.headersFor(101) ?? [])]
  const extra = [...paid, ...(x.extraHeaders ?? [])]
  extra.push('X-Request-Id', x.requestId)
  const all = ['Connection', 'Upgrade', 'Upgrade', x.header('upgrade')!, ...x.response!.headers, ...extra]
  let text = 'HTTP/1.1 101 Switching Protocols\r\n'
  for (let i = 0; i < all.length; i += 2) {
    const line = `${all[i]}: ${all[i + 1]}`
    // The head is written directly to the socket, so Node does not check its headers.
    if (/[\r\n\0]/.test(line)) throw new Error(`Expected a header without line breaks, got one in ${all[i]}.`)
    text += `${line}\r\n`
  }
  return `${text}\r\n`
}

function flatten(headers: HeaderRecord): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    value === undefined || isDroppedFromResponse(name) ? [] : [value].flat().flatMap((one) => [name, one]),
  )
}
