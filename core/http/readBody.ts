import type { IncomingMessage } from 'node:http'
import { TollgateError } from '../errors/error.ts'
import { Pieces } from './pieces.ts'

/**
 * Reads a request body whole when its stated length allows it.
 *
 * @returns the bytes; null when the length is over `maxBytes` or not stated, and then nothing was read: it can be streamed.
 * @throws {TollgateError} `bad_request` when the caller breaks off, or sends less than stated.
 */
export function readBody(req: IncomingMessage, maxBytes: number): Promise<Buffer> | null {
  const stated = req.headers['content-length']
  if (stated === undefined || Number(stated) > maxBytes) return null
  return new Promise((resolve, reject) => {
    const broken = () =>
      reject(new TollgateError('bad_request', 'The request body ended before its stated length.'))
    // What broke off before anybody listened is not told again.
    if (req.destroyed) return broken()
    const pieces = new Pieces()
    req.on('data', (chunk: Buffer) => pieces.push(chunk))
    req.on('end', () => resolve(pieces.join()))
    req.on('aborted', broken)
    req.on('error', broken)
  })
}
