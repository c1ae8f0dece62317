import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { prefixOf } from '../auth/apiKey.ts'
import { messageHashOf, TEXT_LIFE_MS } from '../auth/walletText.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import {
  hourMs,
  minuteMs,
  refuse,
  refusePagesElsewhere,
  takeForClient,
  writeLimit,
} from '../http/rateLimits.ts'
import { answers, exactly, flag, success, text } from '../schema/answers.ts'
import {
  displayNameField,
  fromAnswers,
  httpUrlField,
  signedByWallet,
  usernameField,
} from '../schema/fields.ts'
import type { Infer } from '../schema/infer.ts'
import type { SignedUp } from './openStore.ts'
import { signUp } from './signUp.ts'

const body = {
  ...signedByWallet,
  properties: {
    ...signedByWallet.properties,
    username: { ...usernameField, type: ['string', 'null'] },
    displayName: { ...displayNameField, type: ['string', 'null'] },
    avatarUrl: httpUrlField,
    replaceOldestKey: {
      type: 'boolean',
      description:
        'When the store has all the active keys it may have: revoke the one that was used longest ago.',
    },
    ...fromAnswers('nonce', 'expiresAt'),
  },
} as const

const data = exactly({
  created: {
    ...flag,
    description: 'False when the wallet had a store; then its names are left as they are.',
  },
  store: exactly({
    username: text(),
    displayName: text(),
    storeUrl: text(),
    createdBy: text(),
    avatarUrl: text(),
  }),
  apiKey: text('Shown once.'),
  apiKeyPrefix: text(),
})

/** How often one signed text may be sent for the price of one: every try of a client that tries thrice, and a few more. */
const TELLINGS_OF_ONE_TEXT = 10
/** Requests a minute for each sign-up that an hour allows: those repeats, and some that are malformed. */
const REQUESTS_PER_SIGN_UP = 6

/** `POST /api/agent/signup`: a store and an API key for a wallet's signature. */
export function signupRoute(app: FastifyInstance, api: Api): void {
  /** Sign-ups under way by what was sent, so that a request that is repeated meanwhile gets the same answer. */
  const underWay = new Map<string, Promise<SignedUp>>()

  app.post<{ Body: Infer<typeof body> }>(
    '/api/agent/signup',
    {
      ...limitSignUps(api),
      schema: {
        summary: 'Open a store, or sign in to it',
        description:
          'A new wallet gets a store; a known one gets another key of the store it has. Sending the same signed text again, as a client does that heard no answer, gets the same answer and is not counted again.',
        body,
        response: answers({ 200: success(data), 201: success(data) }, 400, 401, 403, 409, 429, 503),
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
 * Hooks for the sign-up: an honest seller has few a minute and a few an hour, and a client that hears no answer sends the
 * same signed text again. So each request counts against the minute, before its body is read, and each text once against
 * the hour.
 */
function limitSignUps(api: Api) {
  const { signupPerHour } = api.limits
  const requestsPerMinute = signupPerHour * REQUESTS_PER_SIGN_UP
  const takeHour = (request: FastifyRequest, points: number) =>
    takeForClient(api, request, 'signup', signupPerHour, hourMs, points)

  async function onRequest(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    refusePagesElsewhere(api, request)
    const minute = await takeForClient(api, request, 'signup-request', requestsPerMinute, minuteMs)
    if (!minute.ok) return refuse(api, reply, minute, requestsPerMinute)
    // The hour is what runs out first; an answer before the text is read shows it too.
    writeLimit(reply, await takeHour(request, 0), signupPerHour)
  }

  async function preHandler(request: FastifyRequest<{ Body: { message: string } }>, reply: FastifyReply) {
    const name = `signup-text:${messageHashOf(request.body.message)}`
    const tell = (points: number) =>
      takeForClient(api, request, name, TELLINGS_OF_ONE_TEXT, TEXT_LIFE_MS, points)
    const isRepeat = (await tell(0)).remaining < TELLINGS_OF_ONE_TEXT
    const hour = await takeHour(request, isRepeat && (await tell(1)).ok ? 0 : 1)
    if (!hour.ok) return refuse(api, reply, hour, signupPerHour)
    // After the hour was asked: a text that it refused is not one that was paid for.
    if (!isRepeat) await tell(1)
    writeLimit(reply, hour, signupPerHour)
  }

  return { onRequest, preHandler }
}
