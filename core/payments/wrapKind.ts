import type { PurchaseNote } from '../plugin/exchange.ts'

/**
 * How a paid answer of a media type is handed over: JSON is spliced into the wrapper byte by byte, text becomes a JSON
 * string (clients parse every answer as JSON), everything else passes as it is with the ids in headers.
 */
export type WrapKind = 'splice' | 'text' | 'pass'

/**
 * @param headers flat; an encoded body (gzip …), a range, or a charset other than UTF-8 can't be spliced and passes
 * @param isStream the answer goes out as it comes: text can't become a JSON string on the way, so it passes
 */
export function wrapKind(
  note: PurchaseNote,
  mediaType: string,
  headers: readonly string[],
  isStream: boolean,
): WrapKind {
  if (note.wrap === null) return 'pass'
  const isJson = mediaType === 'application/json' || mediaType.endsWith('+json')
  const isText = !isStream && mediaType.startsWith('text/') && mediaType !== 'text/event-stream'
  if (!isJson && !isText) return 'pass'
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!
    if (name.length === 16 && name.toLowerCase() === 'content-encoding') return 'pass'
    // A part of a JSON text is none.
    if (name.length === 13 && name.toLowerCase() === 'content-range') return 'pass'
    if (name.length === 12 && name.toLowerCase() === 'content-type' && foreignCharset.test(headers[i + 1]!))
      return 'pass'
  }
  return isJson ? 'splice' : 'text'
}

const foreignCharset = /charset\s*=\s*"?(?!utf-?8|us-ascii)[a-z0-9]/i
