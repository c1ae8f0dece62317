import { EventEmitter } from 'node:events'
import type { Readable } from 'node:stream'
import type { ServedLink } from '../../core/domain/link.ts'
import type { Reply } from '../../core/http/replies.ts'
import { Exchange, type ExchangeInit } from '../../core/plugin/exchange.ts'
import type { Transport } from '../../core/plugin/transport.ts'

/** What a caller got, whole. */
export interface Got {
  readonly status: number
  /** Flat. */
  readonly headers: readonly string[]
  readonly body: string
}

export interface MemoryTransportInit {
  readonly method?: string
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Readable
}

/** A transport without a network: remembers what was written, reads as slowly as a test wants, and can be left. */
export class MemoryTransport implements Transport {
  readonly method: string
  readonly requestId = 'memory-transport'
  readonly rawHeaders: readonly string[]
  readonly body: Readable | null
  readonly upgrade = null
  isClosed = false
  hasLeft = false
  isTruncated = false
  hasBegun = false
  hasEnded = false
  /** Set once the answer is whole. */
  got: Got | undefined
  /** Fulfilled when the answer is whole, or the call broken off; undefined then. */
  readonly ended: Promise<Got | undefined>
  /** True for a caller who reads nothing until {@link read} is called. */
  isSlow = false
  /** Pieces of the body so far. */
  readonly pieces: Buffer[] = []
  #status = 0
  #headers: readonly string[] = []
  readonly #headersByName: Readonly<Record<string, string>>
  readonly #events = new EventEmitter()
  readonly #settle: (got: Got | undefined) => void

  constructor({ method = 'GET', headers = {}, body }: MemoryTransportInit = {}) {
    this.method = method
    this.rawHeaders = Object.entries(headers).flat()
    this.#headersByName = headers
    this.body = body ?? null
    const { promise, resolve } = Promise.withResolvers<Got | undefined>()
    this.ended = promise
    this.#settle = resolve
  }

  header(name: string): string | undefined {
    return this.#headersByName[name]
  }

  get isSent(): boolean {
    return this.hasEnded
  }

  onClose(listener: () => void): void {
    this.#events.once('close', listener)
  }

  onDrain(listener: () => void): void {
    this.#events.once('drain', listener)
  }

  send(reply: Reply, extra: readonly string[] | null): boolean {
    if (this.hasBegun || this.isClosed) return false
    if (!Number.isInteger(reply.status) || reply.status < 200) throw new Error('Expected a status.')
    this.begin(reply.status, [...reply.headers, ...(extra ?? [])])
    const { body } = reply
    if (typeof body === 'string') this.end(Buffer.from(body, 'latin1'))
    else if (body === null || body instanceof Uint8Array) this.end(body ?? undefined)
    else this.end(Buffer.concat(body))
    return true
  }

  begin(status: number, headers: string[]): void {
    this.hasBegun = true
    this.#status = status
    this.#headers = headers
  }

  write(piece: Uint8Array): boolean {
    this.pieces.push(Buffer.from(piece))
    return !this.isSlow
  }

  end(last?: Uint8Array): void {
    if (last !== undefined) this.pieces.push(Buffer.from(last))
    this.hasEnded = true
    this.got = { status: this.#status, headers: this.#headers, body: Buffer.concat(this.pieces).toString() }
    this.#settle(this.got)
    this.#close()
  }

  cutOff(): void {
    this.#settle(undefined)
    this.#close()
  }

  limitIdle(): void {}

  /** The caller reads on. */
  read(): void {
    this.isSlow = false
    this.#events.emit('drain')
  }

  /** The caller leaves, unless it has its answer. */
  abort(): void {
    if (this.isClosed) return
    this.hasLeft = true
    this.cutOff()
  }

  #close(): void {
    if (this.isClosed) return
    this.isClosed = true
    this.#events.emit('close')
  }
}

/** A call of a link through a transport. */
export const callThrough = (
  transport: Transport,
  link: ServedLink,
  more: Partial<ExchangeInit> = {},
): Exchange =>
  new Exchange(link, {
    ...{ transport, subPath: '', query: '', clientIp: '127.0.0.1', startedAtMs: 0 },
    ...{ paymentHeader: null, x402Version: 2, hasBody: false },
    ...more,
  })
