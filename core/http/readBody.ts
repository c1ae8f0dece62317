import type { Readable } from 'node:stream'
import { TollgateError } from '../errors/error.ts'
import { Pieces } from './pieces.ts'

/** A request whose body has not been read. */
interface Unread {
  header(name: string): string | undefined
  readonly body: Readable | null
}

/**
 * Reads a request body whole when its stated length allows it.
 *
 * @returns the bytes; null when the length is over `maxBytes` or not stated, and then nothing was read: it can be streamed.
 * @throws {TollgateError} `bad_request` when the caller breaks off, or sends less than stated.
 */
export function readBody(request: Unread, maxBytes: number): Promise<Buffer> | null {
  const stated = request.header('content-length')
  const { body } = request
  if (body === null || stated === undefined || Number(stated) > maxBytes) return null
  return new Promise((resolve, reject) => {
    const broken = () =>
      reject(new TollgateError('bad_request', 'The request body ended before its stated length.'))
    // What broke off or ended before anybody listened is not told again.
    if (body.destroyed || body.readableEnded) return broken()
    const pieces = new Pieces()
    body.on('data', (chunk: Buffer) => pieces.push(chunk))
    body.on('end', () => resolve(pieces.join()))
    // Closed it is after the end, too: an error for each would be a twentieth of a call.
    body.on('close', () => {
      if (!body.readableEnded) broken()
    })
    body.on('error', broken)
  })
}
