import { EgressError } from '../egressError.ts'

/** A size in hex, and extensions that nobody uses: `;name`, `;name=token`, `;name="text"` (RFC 9112, section 7.1.1). */
const sizeForm =
  /^([0-9a-fA-F]{1,8})(?:;[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:=(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|"[\t\x20\x21\x23-\x5b\x5d-\x7e]*"))?)*$/
const trailerForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*$/
/** What says where a message ends stands in its head (RFC 9110, section 6.5.1); behind the body it would say it anew. */
const framingForm = /^(?:content-length|transfer-encoding):/i
/** A size with its extensions, and all trailers together. */
const MAX_LINE_BYTES = 256
const MAX_TRAILER_BYTES = 16_384
const lf = 0x0a

/** Takes a chunked body apart (RFC 9112, section 7.1), strictly: CRLF and nothing else ends a line. Trailers are dropped. */
export class ChunkedBody {
  #state: 'size' | 'data' | 'data-end' | 'trailer' | 'done' = 'size'
  #left = 0
  #line = ''
  #trailerBytes = 0

  get isDone(): boolean {
    return this.#state === 'done'
  }

  /**
   * Reads on. What is of the body is moved together in `bytes`, which is this body's from now on, and given as one piece:
   * chunks of a byte would cost a thousand times what they bring.
   *
   * @param emit is given the piece, if there is one
   * @returns how much of `bytes` belonged to the body
   * @throws {EgressError} `EGRESS_BAD_ANSWER`
   */
  read(bytes: Buffer, emit: (piece: Buffer) => void): number {
    const data = { from: 0, to: 0 }
    const used = this.#takeApart(bytes, data)
    if (data.to > data.from) emit(bytes.subarray(data.from, data.to))
    return used
  }

  #takeApart(bytes: Buffer, data: { from: number; to: number }): number {
    let at = 0
    while (at < bytes.length && this.#state !== 'done') {
      if (this.#state === 'data') {
        const end = Math.min(bytes.length, at + this.#left)
        this.#left -= end - at
        if (this.#left === 0) this.#state = 'data-end'
        if (data.to === data.from) data.from = data.to = at
        if (data.to !== at) bytes.copyWithin(data.to, at, end)
        data.to += end - at
        at = end
        continue
      }
      const end = bytes.indexOf(lf, at)
      this.#line += bytes.toString('latin1', at, end === -1 ? bytes.length : end)
      if (this.#line.length > (this.#state === 'trailer' ? MAX_TRAILER_BYTES : MAX_LINE_BYTES))
        throw malformed()
      if (end === -1) return bytes.length
      at = end + 1
      if (!this.#line.endsWith('\r')) throw malformed()
      const line = this.#line.slice(0, -1)
      this.#line = ''
      this.#endOfLine(line)
    }
    return at
  }

  #endOfLine(line: string): void {
    if (this.#state === 'size') {
      const size = sizeForm.exec(line)
      if (size === null) throw malformed()
      this.#left = Number.parseInt(size[1]!, 16)
      this.#state = this.#left === 0 ? 'trailer' : 'data'
    } else if (this.#state === 'data-end') {
      if (line !== '') throw malformed()
      this.#state = 'size'
    } else if (line === '') {
      this.#state = 'done'
    } else {
      this.#trailerBytes += line.length
      if (this.#trailerBytes > MAX_TRAILER_BYTES) throw malformed()
      if (!trailerForm.test(line) || framingForm.test(line)) throw malformed()
    }
  }
}

const malformed = () =>
  new EgressError('EGRESS_BAD_ANSWER', 'The answer is not well-formed HTTP/1.1: expected chunks.')
