import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** What of node's connection is used here beyond its types: the bytes that are being parsed, and a note of our own. */
interface Connection extends Socket {
  parser?: { getCurrentBuffer?(): Buffer | undefined }
  [bytesSeen]?: number
}

/** How much a connection had read when its last request was looked at. */
const bytesSeen = Symbol('bytes seen')

/**
 * Whether a request line separates its parts by more than one space, which node's parser skips without a word and other
 * readers split in other places (RFC 9112, section 3).
 *
 * Only a request whose length on the wire is not that of its parts is looked at more closely, because a look copies the
 * bytes (0.9 µs). A line whose packet is gone when the head is complete can't be looked at; it is forwarded rebuilt.
 *
 * @param headBytes length of the head as it is usually written, `Name: value` and CRLF
 * @param bodyBytes stated length of the body; -1 when it is chunked
 */
export function hasWideRequestLine(req: IncomingMessage, headBytes: number, bodyBytes: number): boolean {
  const connection = req.socket as Connection
  const read = connection.bytesRead
  const fresh = read - (connection[bytesSeen] ?? 0)
  connection[bytesSeen] = read
  if (fresh === headBytes || fresh === headBytes + bodyBytes) return false
  const bytes = connection.parser?.getCurrentBuffer?.()
  return bytes !== undefined && isWide(bytes.toString('latin1'), ` ${req.url} `)
}

function isWide(text: string, target: string): boolean {
  for (let at = text.indexOf(target); at !== -1; at = text.indexOf(target, at + 1)) {
    const behind = at + target.length
    const isLine = text.startsWith('HTTP/1.', behind + countSpaces(text, behind))
    if (isLine && (text[at - 1] === ' ' || text[behind] === ' ')) return true
  }
  return false
}

function countSpaces(text: string, from: number): number {
  let to = from
  while (text.charCodeAt(to) === 0x20) to++
  return to - from
}
