import { Transform, type TransformCallback } from 'node:stream'
import { ErrorCode } from '@modelcontextprotocol/sdk/types.js'
import { VaultError } from '../errors/error.ts'
import { bodyText, MAX_BODY_BYTES } from '../http/readBody.ts'
import { rpcErrorBody } from './jsonRpcError.ts'
import { readMessageText } from './messageText.ts'

/** Of a message that is too long, this much is read to answer it under its own id. */
const MOST_READ_BYTES = 16 * MAX_BODY_BYTES
const LINE_END = 10

/**
 * Lets the lines of standard input through that are JSON with one meaning, in UTF-8 and no longer than a body over HTTP. Any other
 * line is answered with an error: the SDK would end the session at one that is too long, replace bytes that are no UTF-8, and
 * leave a client without an answer.
 *
 * @param answer writes one message to the client
 */
export function stdioMessages(answer: (message: string) => void): Transform {
  let held: Buffer[] = []
  let bytes = 0

  function take(piece: Buffer): void {
    bytes += piece.length
    if (bytes <= MOST_READ_BYTES) held.push(piece)
    else held = []
  }

  /** The line that was taken, or undefined where it was refused. */
  function finish(): Buffer | undefined {
    const line = held.length === 1 ? held[0]! : Buffer.concat(held)
    const isTooLong = bytes > MAX_BODY_BYTES
    held = []
    bytes = 0
    try {
      if (isTooLong) throw new VaultError('PAYLOAD_TOO_LARGE')
      const text = bodyText(line)
      if (text.trim() === '') return undefined
      readMessageText(text)
      return line
    } catch (error) {
      const code = isTooLong ? ErrorCode.InvalidRequest : ErrorCode.ParseError
      answer(`${rpcErrorBody(error, code, idOf(line))}\n`)
      return undefined
    }
  }

  return new Transform({
    transform(chunk: Buffer, _encoding, done: TransformCallback) {
      let from = 0
      for (let at = chunk.indexOf(LINE_END); at !== -1; at = chunk.indexOf(LINE_END, from)) {
        take(chunk.subarray(from, at))
        from = at + 1
        const line = finish()
        if (line !== undefined) this.push(Buffer.concat([line, Buffer.of(LINE_END)]))
      }
      if (from < chunk.length) take(chunk.subarray(from))
      done()
    },
  })
}

/** The id of a request that is refused, where it has one that can be read. */
function idOf(line: Buffer): string | number | null {
  try {
    const { id } = JSON.parse(line.toString('utf8')) as { id?: unknown }
    return typeof id === 'string' || typeof id === 'number' ? id : null
  } catch {
    return null
  }
}
