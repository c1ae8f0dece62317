import type { IncomingMessage } from 'node:http'
import { VaultError } from '../errors/error.ts'
import { maxBodyBytes } from './readJson.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The body as text; '' without reading where there is none. @throws `PAYLOAD_TOO_LARGE`, `VALIDATION_ERROR` */
export function readBodyText(req: IncomingMessage): string | Promise<string> {
  const stated = req.headers['content-length']
  if (stated === undefined && req.headers['transfer-encoding'] === undefined) return ''
  if (stated !== undefined && Number(stated) > maxBodyBytes) throw new VaultError('PAYLOAD_TOO_LARGE')
  if (req.headers['content-encoding'] !== undefined)
    throw new VaultError('UNSUPPORTED_MEDIA_TYPE', 'Expected a body without Content-Encoding.')
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    req.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > maxBodyBytes) reject(new VaultError('PAYLOAD_TOO_LARGE'))
      else chunks.push(chunk)
    })
    req.on('end', () => {
      try {
        resolve(utf8.decode(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)))
      } catch {
        reject(new VaultError('VALIDATION_ERROR', 'Expected the body to be UTF-8.'))
      }
    })
    const broken = () =>
      reject(new VaultError('VALIDATION_ERROR', 'The body ended before its stated length.'))
    req.on('aborted', broken)
    req.on('error', broken)
  })
}
