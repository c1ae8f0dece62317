import { hash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type BrowserSession, endOfSession, SESSION_MOST_MS } from '../../core/domain/browserSession.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Sealer } from '../../core/ports/sealer.ts'
import type { BrowserSessions } from '../../core/ports/store/browserSessions.ts'

const tokenBytes = 32
/**
 * Length of the mark in characters, which is 64 bits of a hash. The mark identifies the credential with which a session was
 * created, and reveals nothing about it.
 */
const MARK_CHARS = 16
const tokenForm = /^[\w-]{43}$/
/** Maximum number of sessions of one account. Above it, the least recently used sessions end. */
const MAX_SESSIONS = 20
/** Shortest time between two writes of a session's `lastSeenAtMs`, in ms. */
const TOUCH_EVERY_MS = 60_000
/** The header in which a page sends its CSRF token with every request that changes something. */
const csrfHeader = 'x-csrf-token'

interface Ports {
  readonly browserSessions: BrowserSessions
  readonly sealer: Sealer
  readonly clock: Clock
  readonly log: Log
  readonly publicUrl: string
}

/** Browser sessions, identified by a cookie that scripts cannot read and other sites cannot send. */
export interface SignedInBrowsers {
  /**
   * Starts a session with a new token and never with a token that the browser sent. If the browser sent a token, its session ends.
   */
  signIn(
    request: FastifyRequest,
    reply: FastifyReply,
    holder: Pick<BrowserSession, 'storeId' | 'wallet'>,
  ): Promise<BrowserSession>
  /** The active session of the request's cookie. It is read from the database. */
  find(request: FastifyRequest): Promise<BrowserSession | undefined>
  signOut(request: FastifyRequest, reply: FastifyReply): Promise<void>
  /** Whether the request has a cookie of this kind, valid or not. */
  hasCookie(request: FastifyRequest): boolean
  /** The CSRF token that a session's pages send as `X-CSRF-Token`. Other sites can neither read nor compute it. */
  csrfTokenOf(session: BrowserSession): string
  /** @throws `FOREIGN_ORIGIN` if the request does not come from a page of this service */
  refuseForeign(request: FastifyRequest): void
  /**
   * Like {@link refuseForeign}, and also checks the session's CSRF token for requests that change something. A read needs no token.
   * If a read sends one, the token has to match, because a page must not show data of another session in the same browser.
   */
  refuseForged(request: FastifyRequest, session: BrowserSession): void
  /**
   * Ends sessions that were created with another credential. Otherwise they would be valid again if that credential were restored.
   */
  endOfOtherCredentials(storeId: BrowserSession['storeId']): Promise<void>
}

/**
 * Creates the sessions of one kind.
 *
 * If the service has an https address, the cookie is `__Host-<name>`. Only this host can set such a cookie, and for all of its
 * paths (RFC 6265bis, section 4.1.3.2). With a plain http address, which is for a service on the local machine, the cookie is
 * `<name>`. Sessions are not cached, so an ended session is invalid for the next request in every process.
 *
 * @param name of the cookie, such as `tollgate_seller`
 * @param credential that sessions belong to; sessions of another credential are invalid
 */
export function createSignedInBrowsers(ports: Ports, name: string, credential = ''): SignedInBrowsers {
  const { browserSessions, sealer, clock, log } = ports
  const { origin, protocol } = new URL(ports.publicUrl)
  const isHttps = protocol === 'https:'
  const cookieName = isHttps ? `__Host-${name}` : name
  const attributes = `; Path=/; HttpOnly; SameSite=Strict${isHttps ? '; Secure' : ''}`

  const credentialMark = `${sealer.mac('browser-credential', credential).toString('hex').slice(0, MARK_CHARS)}:`
  const hashOf = (token: string): string => credentialMark + hash('sha256', token + credential)

  const giveCookie = (reply: FastifyReply, value: string, maxAgeSeconds: number) =>
    void reply.header('set-cookie', `${cookieName}=${value}; Max-Age=${maxAgeSeconds}${attributes}`)

  async function find(request: FastifyRequest): Promise<BrowserSession | undefined> {
    const token = cookieOf(request.headers.cookie, cookieName)
    if (token === undefined || !tokenForm.test(token)) return
    const nowMs = clock.now()
    const session = await browserSessions.byHash(hashOf(token), nowMs)
    if (session === undefined) return
    // If the clock was set back, the session must not last longer.
    const sinceMs = nowMs - session.lastSeenAtMs
    if (sinceMs >= TOUCH_EVERY_MS) {
      browserSessions
        .touch(session.id, nowMs, endOfSession(session.createdAtMs, nowMs))
        .catch((err) =>
          log.warn({ err, sessionId: session.id }, 'could not write when a browser session was last used'),
        )
    }
    return session
  }

  const csrfTokenOf = (session: BrowserSession) =>
    sealer.mac('csrf', `${session.id}:${session.tokenHash}`).toString('base64url')

  function refuseForeign(request: FastifyRequest): void {
    const { origin: from, 'sec-fetch-site': site } = request.headers
    // A browser sends at least one of the two headers, and no script can set them (Fetch, section 2.2.2).
    if (site === 'same-origin' || (from === origin && (site === undefined || site === 'none'))) return
    throw foreign()
  }

  return {
    async signIn(request, reply, holder) {
      const before = await find(request)
      if (before !== undefined) await browserSessions.end(before.storeId, before.id)
      const token = randomBytes(tokenBytes).toString('base64url')
      const nowMs = clock.now()
      const session: BrowserSession = {
        ...holder,
        id: randomUUID(),
        tokenHash: hashOf(token),
        userAgent: (request.headers['user-agent'] ?? '').replace(/[^\x20-\x7e]/g, '').slice(0, 200),
        createdAtMs: nowMs,
        lastSeenAtMs: nowMs,
        endsAtMs: endOfSession(nowMs, nowMs),
      }
      await browserSessions.add(session, nowMs, MAX_SESSIONS)
      giveCookie(reply, token, SESSION_MOST_MS / 1000)
      return session
    },

    find,

    async signOut(request, reply) {
      const session = await find(request)
      if (session !== undefined) await browserSessions.end(session.storeId, session.id)
      giveCookie(reply, '', 0)
    },

    hasCookie: (request) => cookieOf(request.headers.cookie, cookieName) !== undefined,
    csrfTokenOf,
    refuseForeign,

    async endOfOtherCredentials(storeId) {
      for (const { id, tokenHash } of await browserSessions.ofHolder(storeId, clock.now()))
        if (!tokenHash.startsWith(credentialMark)) await browserSessions.end(storeId, id)
    },

    refuseForged(request, session) {
      if (request.method === 'GET' || request.method === 'HEAD') {
        const site = request.headers['sec-fetch-site']
        if (site !== undefined && site !== 'same-origin' && site !== 'none') throw foreign()
        if (request.headers[csrfHeader] === undefined) return
      } else {
        refuseForeign(request)
      }
      const given = Buffer.from(String(request.headers[csrfHeader] ?? ''))
      const expected = Buffer.from(csrfTokenOf(session))
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
        throw new TollgateError(
          'FOREIGN_ORIGIN',
          'The X-CSRF-Token is missing or belongs to another session. Send the csrfToken from the sign-in response.',
        )
      }
    },
  }
}

/**
 * The cookie with this name. Undefined if there is none. Also undefined if there are several, because another site has then set
 * one.
 */
function cookieOf(header: string | undefined, name: string): string | undefined {
  const values = (header ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
  return values.length === 1 && values[0] !== '' ? values[0] : undefined
}

const foreign = (): TollgateError =>
  new TollgateError(
    'FOREIGN_ORIGIN',
    'Expected a request from a page of this service, because it uses a browser session. Programs use an API key.',
  )
