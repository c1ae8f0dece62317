import type { IncomingMessage } from 'node:http'
import { parseStrictJson } from '../../core/x402/strictJson.ts'
import { VaultError } from '../errors/error.ts'

export const MAX_BODY_BYTES = 262_144
const MAX_DEPTH = 32

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** A body's bytes as text; none of them is replaced. @throws `VALIDATION_ERROR` */
export function bodyText(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new VaultError('VALIDATION_ERROR', 'Expected the body to be UTF-8.')
  }
}

/** The body as text; '' without reading where there is none. @throws `PAYLOAD_TOO_LARGE`, `VALIDATION_ERROR` */
export function readBodyText(req: IncomingMessage): string | Promise<string> {
  const stated = req.headers['content-length']
  if (stated === undefined && req.headers['transfer-encoding'] === undefined) return ''
  if (stated !== undefined && Number(stated) > MAX_BODY_BYTES) throw new VaultError('PAYLOAD_TOO_LARGE')
  if (req.headers['content-encoding'] !== undefined)
    throw new VaultError('UNSUPPORTED_MEDIA_TYPE', 'Expected a body without Content-Encoding.')
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    req.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > MAX_BODY_BYTES) reject(new VaultError('PAYLOAD_TOO_LARGE'))
      else chunks.push(chunk)
    })
    req.on('end', () => {
      try {
        resolve(bodyText(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)))
      } catch (error) {
        reject(error)
      }
    })
    const broken = () =>
      reject(new VaultError('VALIDATION_ERROR', 'The body ended before its stated length.'))
    req.on('aborted', broken)
    req.on('error', broken)
  })
}

/** Reads a body that has to be one JSON object. @throws `VALIDATION_ERROR`, `UNSUPPORTED_MEDIA_TYPE` */
export function readJsonObject(contentType: string | undefined, text: string): Record<string, unknown> {
  const [mediaType = ''] = (contentType ?? '').split(';', 1)
  if (mediaType.trim().toLowerCase() !== 'application/json') throw new VaultError('UNSUPPORTED_MEDIA_TYPE')
  const parsed = parseStrictJson(text, { maxDepth: MAX_DEPTH })
  if (!parsed.ok) throw new VaultError('VALIDATION_ERROR', parsed.message)
  const { value } = parsed
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new VaultError('VALIDATION_ERROR', 'Expected a JSON object as body.')
  return value as Record<string, unknown>
}
