import { STATUS_CODES } from 'node:http'
import type { Reply } from '../plugin/reply.ts'

/**
 * A reply whose head is text already, so that a door need not put it together, nor look at each of its characters. Whoever makes one
 * vouches for the headers: there is a `Content-Length`, none of them is a connection's own (`Date`, `Connection`, `Keep-Alive`,
 * `Transfer-Encoding`), and no name or value has a character that may not stand in it (RFC 9110, sections 5.1 and 5.5).
 */
export class PreparedReply implements Reply {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: string
  /** Status line and headers, each with its line end. */
  readonly head: string

  /** @param body latin1: one char a byte */
  constructor(status: number, headers: readonly string[], body: string) {
    this.status = status
    this.headers = headers
    this.body = body
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`
    for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
    this.head = head
  }
}
