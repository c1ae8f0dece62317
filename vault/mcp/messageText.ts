import { parseStrictJson } from '../../core/x402/strictJson.ts'
import { VaultError } from '../errors/error.ts'

/** What an HTTP body of the vault may have, and the levels that JSON-RPC puts around a tool's arguments. */
const MAX_DEPTH = 36

/** Reads the JSON of one message, over HTTP or on one line. @throws `VALIDATION_ERROR` for no JSON, or JSON with two meanings */
export function readMessageText(text: string): unknown {
  const parsed = parseStrictJson(text, { maxDepth: MAX_DEPTH })
  if (parsed.ok) return parsed.value
  throw new VaultError('VALIDATION_ERROR', parsed.message)
}
