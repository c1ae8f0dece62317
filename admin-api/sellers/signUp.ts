import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { SignInNonce } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import {
  HOUR_MS,
  limitPerClient,
  MINUTE_MS,
  refuse,
  refusePagesElsewhere,
  takeForClient,
  writeLimit,
} from '../http/callers.ts'
import { bodyField, fromResponses, type Infer, signedByWallet } from '../http/fields.ts'
import { exactly, field, isoTime, ok, respond, success } from '../http/responses.ts'
import { apiKeyFrom, prefixOf } from './apiKey.ts'
import { openStore, type SignedUp, type SignUpRequest } from './openStore.ts'
import { reservedUsername } from './username.ts'
import {
  canonicalAddress,
  issueSignInText,
  messageHashOf,
  proveWallet,
  signTextBody,
  storedAddress,
  TEXT_LIFE_MS,
  takeText,
  withProof,
} from './walletText.ts'

/** The statement that a wallet signs to sign up. */
const signUpStatement = 'Sign in to open your store. This costs nothing and moves no money.'

/**
 * Opens a store for a wallet that signed the text of the nonce step. If the wallet has a store, adds a key to it.
 *
 * A client that got no response repeats the request, possibly while the first one is still running. The repeated request must get
 * the same store and a working key, although the nonce is used up and keys are never stored. So the key is not random. It is a MAC
 * of the signed text and its one-time nonce under the server's secret. A client that sends the text and its signature again gets
 * the same key, as long as the nonce would still be valid. No other party can compute the key.
 *
 * @throws `INVALID_ADDRESS`, `NONCE_EXPIRED`, `INVALID_SIGNATURE`, `USERNAME_TAKEN`, `LIMIT_REACHED` (five active keys),
 * `CHAIN_UNAVAILABLE` (a contract wallet could not be queried; the same signature can be sent again)
 */
async function signUp(ports: Api, request: SignUpRequest): Promise<SignedUp> {
  const canonical = canonicalAddress(ports, request.chain, request.address)
  const messageHash = messageHashOf(request.message)
  const wallet = storedAddress(request.chain, canonical)
  await refuseUsername(ports, request, wallet)
  const again = await repeatedSignUp(ports, request, canonical, messageHash)
  if (again !== undefined) return again

  const nonce = await takeNonce(ports, request, canonical)
  if (nonce === undefined) {
    // The same request may just have finished in this or another process.
    const late = await repeatedSignUp(ports, request, canonical, messageHash)
    if (late !== undefined) return late
    throw nonceExpired()
  }
  const apiKey = keyOf(ports, messageHash)
  const keyHash = ports.keyRing.hashOf(apiKey)
  const { chain, signature } = request
  return withProof(ports, nonce, signature, async () => {
    const proven = { chain, wallet, canonical, apiKey, keyHash }
    const result = await openStore(ports, request, proven)
    await ports.nonces.rememberSignup(messageHash, result.store.id, nonce.expiresAtMs)
    return result
  })
}

/** Looks up the response of an earlier sign-up with the same signed text. Its nonce would have to be still valid. */
async function repeatedSignUp(
  ports: Api,
  request: SignUpRequest,
  canonical: string,
  messageHash: string,
): Promise<SignedUp | undefined> {
  const storeId = await ports.nonces.signupOf(messageHash, ports.clock.now())
  if (storeId === undefined) return
  await proveWallet(ports, { chain: request.chain, address: canonical }, request.message, request.signature)
  const store = await ports.stores.byWallet(request.chain, storedAddress(request.chain, canonical))
  const apiKey = keyOf(ports, messageHash)
  const key = await ports.keys.byHash(ports.keyRing.hashOf(apiKey))
  if (store?.id !== storeId || key === undefined || !key.isActive) throw nonceExpired()
  // A store and its first key have the same time, because one commit writes both. So equal times mean that the sign-up created the
  // store.
  return { store, apiKey, created: key.createdAtMs === store.createdAtMs }
}

/** Uses up the stored nonce and returns it. Undefined if the nonce does not match the request in every respect. */
async function takeNonce(
  ports: Api,
  request: SignUpRequest,
  canonical: string,
): Promise<SignInNonce | undefined> {
  const nonce = await takeText(ports, request.message, signUpStatement)
  return nonce?.chain === request.chain && nonce.address === canonical ? nonce : undefined
}

/** Refuses an unavailable username before the nonce is used up. The database's unique index makes the final decision. */
async function refuseUsername(ports: Api, request: SignUpRequest, wallet: string): Promise<void> {
  const { username, chain } = request
  if (username == null) return
  if (ports.isReservedUsername(username)) throw reservedUsername()
  const holder = await ports.stores.byUsername(username)
  if (holder === undefined) return
  // If a wallet already has a store, it signs in to that store, regardless of the username in the request.
  if ((await ports.stores.byWallet(chain, wallet)) === undefined) throw new TollgateError('USERNAME_TAKEN')
}

const keyOf = (ports: Pick<Api, 'sealer'>, messageHash: string): string =>
  apiKeyFrom(ports.sealer.mac('signup-api-key', messageHash))

const nonceExpired = (): TollgateError =>
  new TollgateError(
    'NONCE_EXPIRED',
    'The sign-in text is unknown, used or older than five minutes. Request a new nonce and sign its message.',
  )

/** `POST /api/agent/auth/nonce` returns the text that a wallet signs to open its store. */
export function nonceRoute(app: FastifyInstance, api: Api): void {
  app.post<{ Body: Infer<typeof signTextBody> }>(
    '/api/agent/auth/nonce',
    {
      onRequest: limitPerClient(api, 'nonce', api.limits.noncePerMinute, MINUTE_MS),
      schema: {
        summary: 'Get a text to sign up or sign in with',
        description:
          'Returns a message with a nonce (one-time code), which the wallet signs. The nonce is valid for five minutes, for one sign-up and only for this address and chain.',
        body: signTextBody,
        response: respond(
          {
            200: success(
              exactly({
                nonce: field.text(),
                message: field.text('Sign exactly this.'),
                expiresAt: field.time,
              }),
            ),
          },
          [400, 403, 429],
        ),
      },
    },
    async (request) => {
      const { chain } = request.body
      const address = canonicalAddress(api, chain, request.body.address)
      const text = await issueSignInText(api, { chain, address, statement: signUpStatement })
      return ok({ nonce: text.nonce, message: text.message, expiresAt: isoTime(text.expiresAtMs) })
    },
  )
}

const body = {
  ...signedByWallet,
  properties: {
    ...signedByWallet.properties,
    username: { ...bodyField.username, type: ['string', 'null'] },
    displayName: { ...bodyField.displayName, type: ['string', 'null'] },
    avatarUrl: bodyField.httpUrl,
    replaceOldestKey: {
      type: 'boolean',
      description:
        'If true and the store has reached its limit of active API keys, the gateway revokes the API key that was not used for the longest time.',
    },
    ...fromResponses('nonce', 'expiresAt'),
  },
} as const

const data = exactly({
  created: {
    ...field.flag,
    description:
      'False if the wallet already had a store. Username and display name of the store are then unchanged.',
  },
  store: exactly({
    username: field.text(),
    displayName: field.text(),
    storeUrl: field.text(),
    createdBy: field.text(),
    avatarUrl: field.text(),
  }),
  apiKey: field.text('The API key. Only this response contains the API key.'),
  apiKeyPrefix: field.text(),
})

/**
 * Maximum number of tries of one signed text that count once. Clients send a text up to three times, so the limit leaves room for a
 * few more.
 */
const CHECKS_PER_TEXT = 10
/**
 * Requests per minute, for each sign-up that the hourly limit allows. The limit leaves room for repeated and malformed requests.
 */
const REQUESTS_PER_SIGN_UP = 6

/** `POST /api/agent/signup` returns a store and an API key for a wallet's signature. */
export function signupRoute(app: FastifyInstance, api: Api): void {
  /** Sign-ups in progress by their bodies, so that a repeated request gets the same response. */
  const underWay = new Map<string, Promise<SignedUp>>()

  app.post<{ Body: Infer<typeof body> }>(
    '/api/agent/signup',
    {
      ...limitSignUps(api),
      schema: {
        summary: 'Open a store, or sign in to it',
        description:
          'A wallet without a store gets a new store and its API key. A wallet that has a store gets another API key of this store. If a client sends the same signed text again, for example after a lost response, the response is the same and does not count against the limit.',
        body,
        response: respond({ 200: success(data), 201: success(data) }, [400, 401, 403, 409, 429, 503]),
      },
    },
    async (request, reply) => {
      const id = createHash('sha256').update(JSON.stringify(request.body)).digest('hex')
      let running = underWay.get(id)
      if (running === undefined) {
        running = signUp(api, request.body).finally(() => underWay.delete(id))
        underWay.set(id, running)
      }
      const { store, apiKey, created } = await running
      const { username, displayName, createdBy, avatarUrl } = store
      const storeUrl = `${api.publicUrl}/${username}`
      return reply.code(created ? 201 : 200).send(
        ok({
          created,
          store: { username, displayName, storeUrl, createdBy, avatarUrl },
          apiKey,
          apiKeyPrefix: prefixOf(apiKey),
        }),
      )
    },
  )
}

/**
 * Hooks for the sign-up. An honest seller sends few sign-ups, and a client that got no response repeats the same signed text. So
 * each request counts against the limit per minute before its body is read. Each text counts only once against the limit per hour.
 */
function limitSignUps(api: Api) {
  const { signupPerHour } = api.limits
  const requestsPerMinute = signupPerHour * REQUESTS_PER_SIGN_UP
  const takeHour = (request: FastifyRequest, points: number) =>
    takeForClient(api, request, 'signup', signupPerHour, HOUR_MS, points)

  async function onRequest(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    refusePagesElsewhere(api, request)
    const minute = await takeForClient(api, request, 'signup-request', requestsPerMinute, MINUTE_MS)
    if (!minute.ok) return refuse(api, reply, minute, requestsPerMinute)
    // The headers show the hourly limit, because it is used up before the limit per minute. They are set here, because some
    // responses are sent before the text is read.
    writeLimit(reply, await takeHour(request, 0), signupPerHour)
  }

  async function preHandler(request: FastifyRequest<{ Body: { message: string } }>, reply: FastifyReply) {
    const name = `signup-text:${messageHashOf(request.body.message)}`
    const tell = (points: number) => takeForClient(api, request, name, CHECKS_PER_TEXT, TEXT_LIFE_MS, points)
    const isRepeat = (await tell(0)).remaining < CHECKS_PER_TEXT
    const hour = await takeHour(request, isRepeat && (await tell(1)).ok ? 0 : 1)
    if (!hour.ok) return refuse(api, reply, hour, signupPerHour)
    // The text is counted only after the hourly limit allowed it, because a refused text must not make later tries free.
    if (!isRepeat) await tell(1)
    writeLimit(reply, hour, signupPerHour)
  }

  return { onRequest, preHandler }
}
