import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isLoopback } from '../../core/http/isLoopback.ts'
import { VaultError } from '../errors/error.ts'

export interface CallerRules {
  /** The values of `Host` that are ours, in lower case, with the port. */
  readonly hosts: ReadonlySet<string>
  /** SHA-256 of the token that callers must show; undefined where loopback callers need none. */
  readonly tokenHash: Buffer | undefined
}

/** The names the proxy answers to. A name that another site points here (DNS rebinding) is not among them. */
export const hostsOf = (host: string, port: number): ReadonlySet<string> => {
  const names = new Set(['127.0.0.1', 'localhost', '[::1]', host.includes(':') ? `[${host}]` : host])
  return new Set([...names].map((name) => `${name.toLowerCase()}:${port}`))
}

/**
 * Lets programs through and stops pages: a browser on the same machine can reach the port, too, so whoever names another
 * host or origin, or is said by the browser to come from another site, is refused.
 *
 * @param isOpen whether what is asked for needs no token
 * @throws VaultError `ORIGIN_FORBIDDEN`, `UNAUTHORIZED`
 */
export function judgeCaller(request: IncomingMessage, rules: CallerRules, isOpen = false): void {
  const { headers } = request
  const named = valuesOf(request, 'host')
  if (named.length !== 1 || !rules.hosts.has(named[0]!.toLowerCase()))
    throw new VaultError('ORIGIN_FORBIDDEN', 'The Host header does not name this proxy.')
  const own = [...rules.hosts].map((host) => `http://${host}`)
  if (valuesOf(request, 'origin').some((origin) => !own.includes(origin.toLowerCase())))
    throw new VaultError('ORIGIN_FORBIDDEN', 'Pages of other origins can not call this proxy.')
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin' && site !== 'none')
    throw new VaultError('ORIGIN_FORBIDDEN', 'Pages of other sites can not call this proxy.')
  if (isOpen && rules.tokenHash !== undefined) return
  if (rules.tokenHash !== undefined) return assertToken(headers.authorization, rules.tokenHash)
  if (!isLoopback(request.socket.remoteAddress ?? ''))
    throw new VaultError('UNAUTHORIZED', 'Without a token this proxy serves its own machine only.')
}

export const hashOfToken = (token: string): Buffer => createHash('sha256').update(token).digest()

function assertToken(header: string | undefined, expected: Buffer): void {
  const token = /^Bearer +(\S+)$/i.exec(header ?? '')?.[1] ?? ''
  if (!timingSafeEqual(hashOfToken(token), expected))
    throw new VaultError('UNAUTHORIZED', 'This proxy needs Authorization: Bearer with its own token.')
}

function valuesOf({ rawHeaders }: IncomingMessage, name: string): readonly string[] {
  const values: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]!.toLowerCase() === name) values.push(rawHeaders[i + 1]!)
  return values
}
