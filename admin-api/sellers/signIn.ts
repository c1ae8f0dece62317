import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { BrowserSession } from '../../core/domain/browserSession.ts'
import type { Store } from '../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { callerOf, HOUR_MS, limitPerClient, MINUTE_MS, refuse, takeForClient } from '../http/callers.ts'
import { bodyField, type Infer, signedByWallet } from '../http/fields.ts'
import { type IdParams, idOrNotFound, idParams } from '../http/ownership.ts'
import { exactly, field, isoTime, listOf, ok, respond, success } from '../http/responses.ts'
import { createStore } from './openStore.ts'
import { reservedUsername } from './username.ts'
import {
  canonicalAddress,
  issueSignInText,
  signTextBody,
  signTextResponse,
  storedAddress,
  takeText,
  withProof,
} from './walletText.ts'

/** The statement that a wallet signs to sign in with a browser. The signature cannot create an API key. */
const signInStatement = 'Sign in to your dashboard. This costs nothing and moves no money.'

const signInBody = {
  ...signedByWallet,
  properties: {
    ...signedByWallet.properties,
    openStore: { type: 'boolean', description: 'If true, a wallet without a store gets a new store.' },
    username: { ...bodyField.username, type: ['string', 'null'] },
    displayName: { ...bodyField.displayName, type: ['string', 'null'] },
  },
} as const

/**
 * The store of a wallet that signed the text of the nonce step. If requested, a wallet without a store gets a new one. No API key
 * is created. After a refusal the text can be used again, except after an invalid signature.
 *
 * @throws `INVALID_ADDRESS`, `NONCE_EXPIRED`, `INVALID_SIGNATURE`, `CHAIN_UNAVAILABLE`, `USERNAME_TAKEN`; `STORE_NOT_FOUND`
 * if the wallet has no store and none was requested
 */
async function signIn(api: Api, request: Infer<typeof signInBody>) {
  const { chain, message, signature, username } = request
  const canonical = canonicalAddress(api, chain, request.address)
  if (username != null && api.isReservedUsername(username)) throw reservedUsername()
  const text = await takeText(api, message, signInStatement)
  if (text?.chain !== chain || text.address !== canonical) {
    throw new TollgateError(
      'NONCE_EXPIRED',
      'The sign-in text is unknown, used or older than five minutes. Request a new one and sign it.',
    )
  }
  const wallet = { chain, address: storedAddress(chain, canonical) }
  return withProof(api, text, signature, async () => {
    const known = await api.stores.byWallet(chain, wallet.address)
    if (known !== undefined) return { store: known, wallet }
    if (request.openStore !== true) throw new TollgateError('STORE_NOT_FOUND')
    const proven = { chain, canonical, wallet: wallet.address }
    const { store } = await createStore(api, request, proven, () => null).catch(async (error: unknown) => {
      if (!isTollgateError(error) || error.code !== 'CONFLICT') throw error
      // Another request has signed up with this wallet meanwhile. A wallet has only one store.
      return { store: (await api.stores.byWallet(chain, wallet.address))! }
    })
    return { store, wallet }
  })
}

const signedIn = exactly({
  store: exactly({
    id: field.uuid,
    username: field.text(),
    displayName: field.text(),
    avatarUrl: field.text(),
    storeUrl: field.text(),
    developerModeEnabled: field.flag,
  }),
  csrfToken: field.text('A token that every request that changes something must send as X-CSRF-Token.'),
  endsAt: field.time,
})

const listed = exactly({
  id: field.uuid,
  isThisOne: field.flag,
  wallet: {
    ...exactly({ chain: { enum: ['base', 'solana'] }, address: field.text() }),
    type: ['object', 'null'],
  },
  userAgent: field.text('The User-Agent of the browser.'),
  createdAt: field.time,
  lastSeenAt: field.time,
  endsAt: field.time,
})

/** In the API reference, these routes are for browsers only. */
const byCookie = [{ browser: [] }]

/** `/api/dashboard/nonce` and `POST /api/dashboard/session` let a seller sign in with a browser and a wallet. */
export function signInRoutes(app: FastifyInstance, api: Api): void {
  const { noncePerMinute, signupPerHour } = api.limits
  // The request is refused before it is counted, because a page on another site must not use up its visitor's limits. Browsers name
  // the origin of a POST.
  const refusePagesElsewhere = async (request: FastifyRequest) => {
    const { origin, 'sec-fetch-site': site } = request.headers
    if (origin !== undefined || site !== undefined) api.sellers.refuseForeign(request)
  }

  app.post<{ Body: Infer<typeof signTextBody> }>(
    '/api/dashboard/nonce',
    {
      onRequest: [refusePagesElsewhere, limitPerClient(api, 'dashboard-nonce', noncePerMinute, MINUTE_MS)],
      schema: {
        summary: 'Get a text to sign in with',
        description:
          'Returns a text that a wallet signs to sign in. The text is valid for five minutes and only for the dashboard. A signature of this text cannot create an API key.',
        body: signTextBody,
        response: respond({ 200: success(signTextResponse) }, [400, 403, 429]),
      },
    },
    async (request) => {
      const { chain } = request.body
      const address = canonicalAddress(api, chain, request.body.address)
      const { nonce, message, expiresAtMs } = await issueSignInText(api, {
        chain,
        address,
        statement: signInStatement,
      })
      return ok({ nonce, message, expiresAt: isoTime(expiresAtMs) })
    },
  )

  app.post<{ Body: Infer<typeof signInBody> }>(
    '/api/dashboard/session',
    {
      onRequest: [refusePagesElsewhere, limitPerClient(api, 'sign-in', noncePerMinute, MINUTE_MS)],
      schema: {
        summary: 'Sign in to the dashboard',
        description:
          'Starts a browser session with a cookie. The session ends after 12 hours without use, and after 7 days in any case. Only pages of this service can use this route.',
        body: signInBody,
        response: respond({ 201: success(signedIn) }, [400, 401, 403, 404, 409, 429, 503]),
      },
    },
    async (request, reply) => {
      api.sellers.refuseForeign(request)
      if (request.body.openStore === true) {
        const taken = await takeForClient(api, request, 'signup', signupPerHour, HOUR_MS)
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
        description:
          'Ends the browser session at once. If there is no browser session, the response is the same.',
        response: respond({ 200: exactly({ success: { const: true } }) }, [403]),
      },
    },
    async (request, reply) => {
      api.sellers.refuseForeign(request)
      await api.sellers.signOut(request, reply)
      return { success: true }
    },
  )
}

/** Routes about the browser's own session. */
export function sessionRoutes(app: FastifyInstance, api: Api): void {
  app.get(
    '/api/dashboard/session',
    {
      schema: {
        summary: 'Read the signed-in seller',
        security: byCookie,
        response: respond({ 200: success(signedIn) }, [401, 403, 429]),
      },
    },
    async (request) => ok(toSignedIn(api, callerOf(request).store, ownSession(request))),
  )

  app.get(
    '/api/dashboard/sessions',
    {
      schema: {
        summary: 'List the signed-in browsers',
        security: byCookie,
        response: respond({ 200: success(exactly({ sessions: listOf(listed) })) }, [401, 403, 429]),
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
        summary: 'Sign out another browser',
        security: byCookie,
        description: 'Ends a browser session. The browser is signed out with its next request.',
        params: idParams,
        response: respond({ 200: exactly({ success: { const: true } }) }, [401, 403, 404, 429]),
      },
    },
    async (request) => {
      const { storeId } = ownSession(request)
      const unknown = 'Your store has no browser session with this id. The session may have ended.'
      const id = idOrNotFound(request.params.id, 'NOT_FOUND', unknown)
      if (await api.browserSessions.end(storeId, id)) return { success: true }
      throw new TollgateError('NOT_FOUND', unknown)
    },
  )
}

/** @throws `FORBIDDEN` for an API key, because a key has no browser session */
function ownSession(request: FastifyRequest): BrowserSession {
  const { session } = callerOf(request)
  if (session !== null) return session
  throw new TollgateError(
    'FORBIDDEN',
    'Expected a signed-in browser, because an API key has no browser session.',
  )
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
