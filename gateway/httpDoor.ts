import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Door, Upgrade } from '../core/plugin/door.ts'
import type { Reply } from '../core/plugin/reply.ts'
import { endWith, send, sendOnSocket } from './send.ts'

/** A call that came over HTTP: node's request and response as they are, nothing copied. One for each request. */
export class HttpDoor implements Door {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly upgrade: Upgrade | null
  /** The caller sends its body once it is told to (RFC 9110, section 10.1.1): when somebody reads it. */
  owesContinue = false

  /** @param res of an upgrade: one that has no connection yet */
  constructor(req: IncomingMessage, res: ServerResponse, upgrade: Upgrade | null) {
    this.req = req
    this.res = res
    this.upgrade = upgrade
  }

  get method(): string {
    return this.req.method!
  }

  get rawHeaders(): readonly string[] {
    return this.req.rawHeaders
  }

  header(name: string): string | undefined {
    const { headers } = this.req
    const value = headers[name]
    if (typeof value === 'string') return value
    // Node's names are in lower case.
    if (value === undefined) {
      const lower = name.toLowerCase()
      return lower === name ? undefined : this.header(lower)
    }
    // Only `Set-Cookie` is a list, and that is no header of requests. What every object has is none either.
    return Object.hasOwn(headers, name) ? value.join(', ') : undefined
  }

  get body(): IncomingMessage {
    if (this.owesContinue) {
      this.owesContinue = false
      this.res.writeContinue()
    }
    return this.req
  }

  /** An upgraded connection is not the response's any more. */
  get isClosed(): boolean {
    return this.upgrade === null ? this.res.destroyed : this.upgrade.socket.destroyed
  }

  onClose(listener: () => void): void {
    ;(this.upgrade === null ? this.res : this.upgrade.socket).once('close', listener)
  }

  get hasBegun(): boolean {
    return this.res.headersSent
  }

  get hasEnded(): boolean {
    return this.res.writableEnded
  }

  get isSent(): boolean {
    return this.res.writableFinished
  }

  send(reply: Reply, extra: readonly string[] | null): boolean {
    return this.upgrade === null
      ? send(this.res, reply, extra)
      : sendOnSocket(this.res, this.upgrade.socket, reply, extra)
  }

  begin(status: number, headers: string[]): void {
    this.res.writeHead(status, headers)
  }

  write(piece: Uint8Array): boolean {
    return this.res.write(piece)
  }

  onDrain(listener: () => void): void {
    this.res.once('drain', listener)
  }

  end(last: Uint8Array | null = null): void {
    endWith(this.res, last)
  }

  /** To HTTP/1.0 the end of the connection says that the answer is whole, so that only a reset says that it is not. */
  cutOff(): void {
    if (this.upgrade !== null) this.upgrade.socket.destroy()
    else if (this.req.httpVersionMinor === 0) this.req.socket.resetAndDestroy()
    else this.res.destroy()
  }

  limitIdle(timeoutMs: number): void {
    this.res.socket?.setTimeout(timeoutMs)
  }
}
