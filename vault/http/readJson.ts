import { parseStrictJson } from '../../core/x402/strictJson.ts'
import { VaultError } from '../errors/error.ts'

export const maxBodyBytes = 262_144
const maxDepth = 32

/** Reads a body that has to be one JSON object. @throws `VALIDATION_ERROR`, `UNSUPPORTED_MEDIA_TYPE` */
export function readJsonObject(contentType: string | undefined, text: string): Record<string, unknown> {
  const [mediaType = ''] = (contentType ?? '').split(';', 1)
  if (mediaType.trim().toLowerCase() !== 'application/json') throw new VaultError('UNSUPPORTED_MEDIA_TYPE')
  const parsed = parseStrictJson(text, { maxDepth })
  if (!parsed.ok) throw new VaultError('VALIDATION_ERROR', parsed.message)
  const { value } = parsed
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new VaultError('VALIDATION_ERROR', 'Expected a JSON object as body.')
  return value as Record<string, unknown>
}
