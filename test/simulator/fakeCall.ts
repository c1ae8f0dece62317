import { EventEmitter } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Call } from '../../gateway/call.ts'

/** What a buyer got: undefined while nothing has come. */
export interface Got {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: string
}

/** A buyer's connection without a network: remembers what was written, and can be cut. */
export class FakeResponse extends EventEmitter {
  headersSent = false
  destroyed = false
  writableEnded = false
  got: Got | undefined
  #status = 0
  #headers: readonly string[] = []

  writeHead(status: number, headers: readonly string[]): void {
    this.headersSent = true
    this.#status = status
    this.#headers = headers
  }

  end(body: string | Uint8Array = '', encoding?: BufferEncoding): void {
    this.writableEnded = true
    const text =
      typeof body === 'string' ? Buffer.from(body, encoding).toString() : Buffer.from(body).toString()
    this.got = { status: this.#status, headers: this.#headers, body: text }
  }

  hangUp(): void {
    if (this.writableEnded || this.destroyed) return
    this.destroyed = true
    this.emit('close')
  }
}

export function fakeCall(
  key: string,
  subPath: string,
  paymentHeader: string,
): { call: Call; res: FakeResponse } {
  const res = new FakeResponse()
  const call: Call = {
    req: { method: 'GET', headers: {}, rawHeaders: [] } as unknown as IncomingMessage,
    res: res as unknown as ServerResponse,
    head: {
      ...{ problem: null, paymentHeader, x402Version: 2, hasBody: false, contentLength: 0 },
      ...{ hasOrigin: false, expectsContinue: false },
    },
    target: { key, subPath, query: '', asksForV1: false },
    clientIp: '127.0.0.1',
    upgrade: null,
  }
  return { call, res }
}
