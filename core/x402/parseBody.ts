import { parseStrictJson, type StrictJson } from './strictJson.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads bytes as strict JSON in UTF-8. Never throws. */
export function parseBody(body: Uint8Array): StrictJson {
  try {
    return parseStrictJson(utf8.decode(body))
  } catch {
    return { ok: false, message: 'Expected UTF-8, got other bytes.' }
  }
}
