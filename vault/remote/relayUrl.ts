import { isLoopback } from '../../core/http/isLoopback.ts'
import { relayPath } from '../relay/frames.ts'

/**
 * The address to connect to for a relay's base address. `wss:` only, except on this machine: the content is encrypted
 * end to end, but who talks to whom, and when, is not for the network in between.
 *
 * @throws Error that says what was expected.
 * @example relayUrl('wss://relay.example').href // wss://relay.example/v1/relay
 */
export function relayUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'wss:' && url.protocol !== 'ws:'))
    throw new Error('expected the address of the relay as wss://host or wss://host:port')
  if (url.protocol === 'ws:' && !isLoopback(url.hostname))
    throw new Error(
      `expected wss:// for the relay ${url.host}; plain ws:// is for relays on this machine only`,
    )
  if (url.username || url.password || url.search || url.hash)
    throw new Error('expected the address of the relay without user, query and fragment')
  url.pathname = url.pathname.replace(/\/$/, '') + relayPath
  return url
}
