import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { isPaid } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { handled, type Reply } from '../../core/plugin/reply.ts'
import type { UpstreamController, UpstreamHandler } from '../../core/ports/egress.ts'
import { fittedHead } from './answerHead.ts'
import { isDroppedFromAnswer } from './dropped.ts'
import { AnswerRefused, AnswerTimeout, BuyerLeft, UpstreamBusy } from './failure.ts'
import type { Limits } from './limits.ts'
import { Pace } from './pace.ts'
import type { Holder, Place } from './places.ts'

/** By name; a list where a name came several times. */
type HeaderRecord = Readonly<Record<string, string | string[] | undefined>>

/** A peer that vanished without a word is noticed after some of these. */
const KEEP_ALIVE_MS = 60_000

/** Takes the seller's answer to an upgrade request: 101 gives the connection, anything else is a failure. */
export class TunnelAnswer implements UpstreamHandler, Holder {
  #controller: UpstreamController | null = null
  #ended = false
  #abortedBy: Error | null = null
  readonly pace: Pace
  readonly #x: Exchange
  readonly #place: Place
  readonly #done: (error: Error | null) => void
  /** For all of it: connecting, interim answers, the handshake. */
  readonly #deadline: NodeJS.Timeout
  readonly #buyerClosed = () => this.#abort(new BuyerLeft())

  constructor(x: Exchange, place: Place, limits: Limits, done: (error: Error | null) => void) {
    this.#x = x
    this.#place = place
    this.pace = new Pace(limits.slowestBytesPerSecond)
    this.#done = done
    this.#deadline = setTimeout(() => this.#abort(new AnswerTimeout()), limits.headersTimeoutMs)
    x.upgrade!.socket.once('close', this.#buyerClosed)
  }

  /** Nothing is read or sent before the handshake. */
  isBehind(): boolean {
    return false
  }

  giveWay(): void {
    this.#abort(new UpstreamBusy('Other calls needed the connection.'))
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller
    this.#place.connected()
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
    this.#x.answer = {
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
    this.#abort(new AnswerRefused(`The seller's API refused the upgrade with status ${status}.`))
  }

  onResponseData(): void {}
  onResponseEnd(): void {}

  onResponseError(_controller: UpstreamController | null, error: Error): void {
    this.#place.connected()
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

/** After one side has ended, what is on its way to the other has this long; WebSockets know no half-open state. */
const LINGER_MS = 1_000

/**
 * Answers the upgrade and joins the buyer's connection with the seller's. The call ends here: the tunnel holds on to
 * nothing of it, so that a reload does not wait for it.
 */
export function splice(x: Exchange, limits: Limits): Reply {
  const { socket: buyer } = x.upgrade!
  const seller = x.answer!.tunnel!
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
    // What goes to a side counts as well as what comes from it; one that takes nothing any more is idle.
    side.setTimeout(tunnelIdleTimeoutMs, close)
    side.on('error', close).on('data', count).once('end', endSoon)
    side.once('close', () => {
      // Whatever came in order is still written to the other side, within the time that runs since the end.
      if (side.readableEnded && !other.writableFinished && !other.destroyed) other.once('finish', close)
      else close()
    })
    side.pipe(other)
  }
}

function headOf(x: Exchange): string {
  const extra = [...(x.purchase?.headers ?? []), ...(x.settlement?.headers ?? []), ...(x.extraHeaders ?? [])]
  extra.push('X-Request-Id', x.requestId)
  const all = ['Connection', 'Upgrade', 'Upgrade', x.header('upgrade')!, ...x.answer!.headers, ...extra]
  let text = 'HTTP/1.1 101 Switching Protocols\r\n'
  for (let i = 0; i < all.length; i += 2) {
    const line = `${all[i]}: ${all[i + 1]}`
    // Written by hand, so that node's own check of headers does not see it.
    if (/[\r\n\0]/.test(line)) throw new Error(`Expected a header without line breaks, got one in ${all[i]}.`)
    text += `${line}\r\n`
  }
  return `${text}\r\n`
}

function flatten(headers: HeaderRecord): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    value === undefined || isDroppedFromAnswer(name) ? [] : [value].flat().flatMap((one) => [name, one]),
  )
}
