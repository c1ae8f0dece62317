import { hash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type BrowserSession, endOfSession, SESSION_MOST_MS } from '../../core/domain/browserSession.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Sealer } from '../../core/ports/sealer.ts'
import type { BrowserSessions } from '../../core/ports/store/browserSessions.ts'

const tokenBytes = 32
/** 64 bits: they say which credential a session stands on, and nothing of the credential. */
const MARK_CHARS = 16
const tokenForm = /^[\w-]{43}$/
/** Sessions that one holder may have at once; those seen longest ago make room. */
const MOST_SESSIONS = 20
/** How exact `lastSeenAtMs` is: one write per session in this time. */
const TOUCH_EVERY_MS = 60_000
/** What a page repeats with every request that changes something. */
export const csrfHeader = 'x-csrf-token'

interface Ports {
  readonly browserSessions: BrowserSessions
  readonly sealer: Sealer
  readonly clock: Clock
  readonly log: Log
  readonly publicUrl: string
}

/** Knows who is signed in with a browser, by a cookie that no script reads and no other site sends. */
export interface SignedInBrowsers {
  /** Begins a session with a token of its own, whatever the browser sent; the one that it sent ends. */
  signIn(
    request: FastifyRequest,
    reply: FastifyReply,
    holder: Pick<BrowserSession, 'storeId' | 'wallet'>,
  ): Promise<BrowserSession>
  /** The live session of the request's cookie, as it is stored now. */
  find(request: FastifyRequest): Promise<BrowserSession | undefined>
  signOut(request: FastifyRequest, reply: FastifyReply): Promise<void>
  /** Whether the request has a cookie of these sessions, be it a live one or not. */
  hasCookie(request: FastifyRequest): boolean
  /** What the pages of a session send as `X-CSRF-Token`: another site can't read it, and a script elsewhere can't make it. */
  csrfTokenOf(session: BrowserSession): string
  /** @throws `FOREIGN_ORIGIN` when the request does not come from a page of this service */
  refuseForeign(request: FastifyRequest): void
  /**
   * As {@link refuseForeign}, and of what changes something the session's own CSRF token as well. Reading needs none, but one
   * that is sent has to be the session's: a page shows nothing of whoever signed in beside it.
   */
  refuseForged(request: FastifyRequest, session: BrowserSession): void
  /** Ends the holder's sessions of another credential, so that restoring that credential revives none of them. */
  endOfOtherCredentials(storeId: BrowserSession['storeId']): Promise<void>
}

/**
 * Makes one kind of browser session.
 *
 * The cookie is `__Host-<name>` where the service is reached by https: only this host can set it, for all of its paths
 * (RFC 6265bis, section 4.1.3.2). On plain http, for a service on one's own machine, it is `<name>`. Nothing is cached: a
 * session that was ended is over for the next request in every process.
 *
 * @param name of the cookie, such as `tollgate_seller`
 * @param credential that sessions stand on: with another one they are over
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
    // A clock that was set back makes no session longer.
    const sinceMs = nowMs - session.lastSeenAtMs
    if (sinceMs >= TOUCH_EVERY_MS) {
      browserSessions
        .touch(session.id, nowMs, endOfSession(session.createdAtMs, nowMs))
        .catch((err) => log.warn({ err, sessionId: session.id }, 'when a session was seen was not written'))
    }
    return session
  }

  const csrfTokenOf = (session: BrowserSession) =>
    sealer.mac('csrf', `${session.id}:${session.tokenHash}`).toString('base64url')

  function refuseForeign(request: FastifyRequest): void {
    const { origin: from, 'sec-fetch-site': site } = request.headers
    // A browser sends one or the other, and no script can set them (Fetch, section 2.2.2).
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
      await browserSessions.add(session, nowMs, MOST_SESSIONS)
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
          'The X-CSRF-Token is missing or that of another session. Send the csrfToken that signing in answered.',
        )
      }
    },
  }
}

/** The cookie of a name; undefined when there is none, or there are several: then somebody else set one of them. */
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
    'A signed-in browser may ask this from the pages of this service only. Programs use an API key.',
  )
