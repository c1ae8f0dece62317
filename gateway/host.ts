import { isIPv6 } from 'node:net'

/** Registered name or IPv4 address, and a port (RFC 3986, section 3.2.2). A comma is what joined Host headers look like. */
const named = /^(?:[\w\-.~!$&'()*+;=]|%[\da-f]{2})+(?::(\d{0,5}))?$/i
/** An IPv6 address in brackets, and a port; a zone means something on the caller's machine only. */
const bracketed = /^\[([\da-f:.]+)\](?::(\d{0,5}))?$/i
/** RFC 3986, section 3.2.2, on names, and a port. */
const MAX_CHARS = 255 + 6

const MAX_KNOWN = 256
/** Values that were found well-formed: a gateway is called by few names. */
const known = new Set<string>()

/** Whether a value of `Host` is one host, with or without a port (RFC 9112, section 3.2); an empty one is not. */
export function isHost(value: string): boolean {
  if (known.has(value)) return true
  if (!isWellFormed(value)) return false
  if (known.size === MAX_KNOWN) known.clear()
  known.add(value)
  return true
}

function isWellFormed(value: string): boolean {
  if (value.length > MAX_CHARS) return false
  const literal = bracketed.exec(value)
  const port = literal === null ? named.exec(value) : isIPv6(literal[1]!) ? literal.slice(1) : null
  return port !== null && Number(port[1] ?? 0) <= 65_535
}
