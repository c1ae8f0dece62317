import { createHash, randomUUID, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { isLoopback } from '../../core/http/caller.ts'
import { parseStrictJson } from '../../core/x402/strictJson.ts'
import { VaultError } from '../errors/error.ts'

export interface CallerRules {
  /** The accepted values of `Host`, in lower case, with the port. */
  readonly hosts: ReadonlySet<string>
  /** SHA-256 of the token that callers must send. Undefined where loopback callers need none. */
  readonly tokenHash: Buffer | undefined
}

/** The accepted host names of a port. If another site's name points to this machine (DNS rebinding), it is not among them. */
export const hostsOf = (host: string, port: number): ReadonlySet<string> => {
  const names = new Set(['127.0.0.1', 'localhost', '[::1]', host.includes(':') ? `[${host}]` : host])
  return new Set([...names].map((name) => `${name.toLowerCase()}:${port}`))
}

/**
 * Admits programs on this machine and stops web pages. A page in a browser can reach loopback too. It sends a request that
 * needs no permission, which has an `Origin` or Sec-Fetch headers, or points its host name at 127.0.0.1, which is then in
 * `Host`. All checks pass before anything is done, and no response has a CORS header.
 *
 * @param hosts the accepted values of `Host`, in lower case, with the port
 * @param hasPage true if a page that is served here may call. Only the same origin may
 * @throws VaultError `ORIGIN_FORBIDDEN`
 */
export function assertNoForeignPage(
  request: IncomingMessage,
  hosts: ReadonlySet<string>,
  hasPage: boolean,
): void {
  const { origin, referer } = request.headers
  const [host, ...others] = valuesOf(request, 'host')
  if (host === undefined || others.length > 0 || !hosts.has(host.toLowerCase()))
    throw forbidden(`Expected Host to be one of ${[...hosts].join(', ')}.`)
  const own = `http://${host.toLowerCase()}`
  if (origin !== undefined && !(hasPage && origin.toLowerCase() === own))
    throw forbidden('Expected no Origin header, because pages of other sites have no access.')
  const site = request.headers['sec-fetch-site']
  if (site !== undefined && site !== 'none' && !(hasPage && site === 'same-origin'))
    throw forbidden('Expected no request from a web page.')
  if (referer !== undefined && !(hasPage && referer.startsWith(`${own}/`)))
    throw forbidden('Expected no Referer header, because pages of other sites have no access.')
}

const forbidden = (message: string): VaultError => new VaultError('ORIGIN_FORBIDDEN', message)

/**
 * @param isOpen whether the request needs no token
 * @throws VaultError `ORIGIN_FORBIDDEN`, `UNAUTHORIZED`
 */
export function judgeCaller(request: IncomingMessage, rules: CallerRules, isOpen = false): void {
  assertNoForeignPage(request, rules.hosts, true)
  if (isOpen && rules.tokenHash !== undefined) return
  if (rules.tokenHash !== undefined) return assertToken(request.headers.authorization, rules.tokenHash)
  if (!isLoopback(request.socket.remoteAddress ?? ''))
    throw new VaultError('UNAUTHORIZED', 'Without a token this proxy serves only its own machine.')
}

export const hashOfToken = (token: string): Buffer => createHash('sha256').update(token).digest()

function assertToken(header: string | undefined, expected: Buffer): void {
  const token = /^Bearer +(\S+)$/i.exec(header ?? '')?.[1] ?? ''
  if (!timingSafeEqual(hashOfToken(token), expected))
    throw new VaultError('UNAUTHORIZED', "Expected Authorization: Bearer with the proxy's token.")
}

function valuesOf({ rawHeaders }: IncomingMessage, name: string): readonly string[] {
  const values: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]!.toLowerCase() === name) values.push(rawHeaders[i + 1]!)
  return values
}

/** How long a caller on this machine may read nothing of its response, in ms. Then the connection is closed. */
const PATIENCE_MS = 30_000

/** A signal that aborts when the connection closes before the response, because the caller no longer waits. */
export function abortOf(res: ServerResponse): AbortSignal {
  const gone = new AbortController()
  res.once('close', () => {
    if (!res.writableFinished) gone.abort()
  })
  return gone.signal
}

/**
 * Closes connections whose responses are not read. Each uses a slot of the server and memory for its response, and a program
 * without a credential could use all slots. A request that waits for the owner has no response to read yet, so it may stay.
 *
 * @param afterMs for tests
 */
export function endStalled(server: Server, afterMs = PATIENCE_MS): void {
  server.on('request', ({ socket }, res) => {
    res.setTimeout(afterMs, () => {
      if (socket.writableLength > 0) socket.destroy()
    })
  })
}

const pattern = /^[A-Za-z0-9._-]{1,64}$/

/**
 * The `X-Request-Id` of the request if it has a plain form, otherwise a new id. Other forms are not accepted, because the id is
 * logged and its sender is not trusted.
 */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && pattern.test(given) ? given : randomUUID()
}

export const MAX_BODY_BYTES = 262_144
const MAX_DEPTH = 32

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Decodes a body. Invalid bytes are refused and not replaced. @throws `VALIDATION_ERROR` */
export function bodyText(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new VaultError('VALIDATION_ERROR', 'Expected the body to be UTF-8.')
  }
}

/** Reads the body as text. Returns '' without waiting if there is none. @throws `PAYLOAD_TOO_LARGE`, `VALIDATION_ERROR` */
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
