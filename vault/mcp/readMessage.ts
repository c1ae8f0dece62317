import type { IncomingMessage } from 'node:http'
import { parseStrictJson } from '../../core/x402/strictJson.ts'
import { VaultError } from '../errors/error.ts'
import { readBodyText } from '../http/readBody.ts'

/** What an HTTP body of the vault may have, and the levels that JSON-RPC puts around a tool's arguments. */
const maxDepth = 36

/**
 * The JSON of a POST, at most 256 KiB, read as strictly as every other body of the vault.
 *
 * @throws `PAYLOAD_TOO_LARGE`, `UNSUPPORTED_MEDIA_TYPE` (compressed), `VALIDATION_ERROR` (no JSON, or JSON with two meanings)
 */
export async function readMessage(req: IncomingMessage): Promise<unknown> {
  const parsed = parseStrictJson(await readBodyText(req), { maxDepth })
  if (parsed.ok) return parsed.value
  throw new VaultError('VALIDATION_ERROR', parsed.message)
}
