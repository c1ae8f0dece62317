import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { BrowserSession } from '../../core/domain/browserSession.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../auth/authenticate.ts'
import { canonicalAddress, handOutText } from '../auth/walletText.ts'
import type { Api } from '../deps.ts'
import { isoTime, ok } from '../http/envelope.ts'
import { type IdParams, idOrNotFound, idParams } from '../http/ids.ts'
import { hourMs, limitPerClient, minuteMs, refuse, takeForClient } from '../http/rateLimits.ts'
import { answers, exactly, flag, listOf, success, text, time, uuid } from '../schema/answers.ts'
import { chainField, displayNameField, signedByWallet, usernameField, walletField } from '../schema/fields.ts'
import type { Infer } from '../schema/infer.ts'
import { signIn, signInStatement } from './signIn.ts'

const nonceBody = {
  type: 'object',
  additionalProperties: false,
  required: ['address', 'chain'],
  properties: { address: walletField, chain: chainField },
} as const

const signInBody = {
  ...signedByWallet,
  properties: {
    ...signedByWallet.properties,
    openStore: { type: 'boolean', description: 'Makes a store for a wallet that has none.' },
    username: { ...usernameField, type: ['string', 'null'] },
    displayName: { ...displayNameField, type: ['string', 'null'] },
  },
} as const

const nonceAnswer = exactly({ nonce: text(), message: text('Sign exactly this.'), expiresAt: time })

const signedIn = exactly({
  store: exactly({
    id: uuid,
    username: text(),
    displayName: text(),
    avatarUrl: text(),
    storeUrl: text(),
    developerModeEnabled: flag,
  }),
  csrfToken: text('Goes into X-CSRF-Token of every request that changes something.'),
  endsAt: time,
})

const listed = exactly({
  id: uuid,
  isThisOne: flag,
  wallet: { ...exactly({ chain: { enum: ['base', 'solana'] }, address: text() }), type: ['object', 'null'] },
  userAgent: text('What the browser calls itself.'),
  createdAt: time,
  lastSeenAt: time,
  endsAt: time,
})

/** In the reference: these are for browsers only. */
const byCookie = [{ browser: [] }]

/** `/api/dashboard/nonce` and `POST /api/dashboard/session`: a seller signs in with a browser and a wallet. */
export function signInRoutes(app: FastifyInstance, api: Api): void {
  const { noncePerMinute, signupPerHour } = api.limits
  // Before anything is counted: a page elsewhere uses up nothing of its reader's. Browsers say of a POST where it comes from.
  const refusePagesElsewhere = async (request: FastifyRequest) => {
    const { origin, 'sec-fetch-site': site } = request.headers
    if (origin !== undefined || site !== undefined) api.sellers.refuseForeign(request)
  }

  app.post<{ Body: Infer<typeof nonceBody> }>(
    '/api/dashboard/nonce',
    {
      onRequest: [refusePagesElsewhere, limitPerClient(api, 'dashboard-nonce', noncePerMinute, minuteMs)],
      schema: {
        summary: 'Get a text to sign in with',
        description: 'It lives five minutes, and is good for the dashboard only: no API key comes of it.',
        body: nonceBody,
        response: answers({ 200: success(nonceAnswer) }, 400, 403, 429),
      },
    },
    async (request) => {
      const { chain } = request.body
      const address = canonicalAddress(api, chain, request.body.address)
      const { nonce, message, expiresAtMs } = await handOutText(api, {
        ...{ chain, address, statement: signInStatement },
      })
      return ok({ nonce, message, expiresAt: isoTime(expiresAtMs) })
    },
  )

  app.post<{ Body: Infer<typeof signInBody> }>(
    '/api/dashboard/session',
    {
      onRequest: [refusePagesElsewhere, limitPerClient(api, 'sign-in', noncePerMinute, minuteMs)],
      schema: {
        summary: 'Sign in with a browser',
        description:
          'Sets a cookie that ends after 12 hours without use, and after 7 days. From pages of this service only.',
        body: signInBody,
        response: answers({ 201: success(signedIn) }, 400, 401, 403, 404, 409, 429, 503),
      },
    },
    async (request, reply) => {
      api.sellers.refuseForeign(request)
      if (request.body.openStore === true) {
        const taken = await takeForClient(api, request, 'signup', signupPerHour, hourMs)
        if (!taken.ok) refuse(api, reply, taken, signupPerHour)
      }
      const { store, wallet } = await signIn(api, request.body)
      const session = await api.sellers.signIn(request, reply, { storeId: store.id, wallet })
      return reply.code(201).send(ok(toSignedIn(api, store, session)))
    },
  )

  app.delete(
    '/api/dashboard/session',
    {
      schema: {
        summary: 'Sign out',
        description: 'The session ends at once. Without one the answer is the same.',
        response: answers({ 200: exactly({ success: { const: true } }) }, 403),
      },
    },
    async (request, reply) => {
      api.sellers.refuseForeign(request)
      await api.sellers.signOut(request, reply)
      return { success: true }
    },
  )
}

/** What a signed-in browser asks about itself. */
export function sessionRoutes(app: FastifyInstance, api: Api): void {
  app.get(
    '/api/dashboard/session',
    {
      schema: {
        summary: 'Who is signed in',
        security: byCookie,
        response: answers({ 200: success(signedIn) }, 401, 403, 429),
      },
    },
    async (request) => ok(toSignedIn(api, callerOf(request).store, ownSession(request))),
  )

  app.get(
    '/api/dashboard/sessions',
    {
      schema: {
        summary: 'List the browsers that are signed in',
        security: byCookie,
        response: answers({ 200: success(exactly({ sessions: listOf(listed) })) }, 401, 403, 429),
      },
    },
    async (request) => {
      const own = ownSession(request)
      const sessions = await api.browserSessions.ofHolder(own.storeId, api.clock.now())
      return ok({ sessions: sessions.map((one) => toListed(one, own)) })
    },
  )

  app.delete<{ Params: IdParams }>(
    '/api/dashboard/sessions/:id',
    {
      schema: {
        summary: 'End a session',
        security: byCookie,
        description: 'Whoever uses it is signed out with the next request.',
        params: idParams,
        response: answers({ 200: exactly({ success: { const: true } }) }, 401, 403, 404, 429),
      },
    },
    async (request) => {
      const { storeId } = ownSession(request)
      const id = idOrNotFound(request.params.id, 'NOT_FOUND')
      if (await api.browserSessions.end(storeId, id)) return { success: true }
      throw new TollgateError('NOT_FOUND', 'The store has no session with this id; it may have ended.')
    },
  )
}

/** @throws `FORBIDDEN` for an API key: it is nobody's browser */
export function ownSession(request: FastifyRequest): BrowserSession {
  const { session } = callerOf(request)
  if (session !== null) return session
  throw new TollgateError('FORBIDDEN', 'This is for signed-in browsers; an API key has no session.')
}

function toSignedIn(api: Api, store: Store, session: BrowserSession) {
  const { id, username, displayName, avatarUrl, developerModeEnabled } = store
  const storeUrl = `${api.publicUrl}/${username}`
  return {
    store: { id, username, displayName, avatarUrl, storeUrl, developerModeEnabled },
    csrfToken: api.sellers.csrfTokenOf(session),
    endsAt: isoTime(session.endsAtMs),
  }
}

const toListed = (session: BrowserSession, own: BrowserSession) => ({
  id: session.id,
  isThisOne: session.id === own.id,
  wallet: session.wallet,
  userAgent: session.userAgent,
  createdAt: isoTime(session.createdAtMs),
  lastSeenAt: isoTime(session.lastSeenAtMs),
  endsAt: isoTime(session.endsAtMs),
})
