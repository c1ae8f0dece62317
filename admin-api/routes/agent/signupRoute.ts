import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { prefixOf } from '../../auth/apiKey.ts'
import type { KeyRing } from '../../auth/keyRing.ts'
import type { SignedUp } from '../../auth/openStore.ts'
import { nonceLifeMs } from '../../auth/signInText.ts'
import { signUp } from '../../auth/signUp.ts'
import type { Api } from '../../deps.ts'
import { ok } from '../../http/envelope.ts'
import { limitSignUps } from '../../http/rateLimits.ts'
import { answers, exactly, flag, success, text } from '../../schema/answers.ts'
import {
  chainField,
  displayNameField,
  fromAnswers,
  httpUrlField,
  usernameField,
  walletField,
} from '../../schema/fields.ts'
import type { Infer } from '../../schema/infer.ts'

const body = {
  type: 'object',
  additionalProperties: false,
  required: ['address', 'chain', 'signature', 'message'],
  properties: {
    address: walletField,
    chain: chainField,
    signature: {
      type: 'string',
      minLength: 1,
      // ERC-6492 wraps the call that deploys the wallet, so a signature can be long.
      maxLength: 65_536,
      description: 'base: hex, contract wallets too. solana: base64 or base58.',
    },
    message: {
      type: 'string',
      minLength: 1,
      maxLength: 4_096,
      description: 'The text of the nonce step, unchanged.',
    },
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

/** `POST /api/agent/signup`: a store and an API key for a wallet's signature. */
export function signupRoute(app: FastifyInstance, api: Api, keyRing: KeyRing): void {
  const ports = { ...api, hashOf: keyRing.hashOf, forget: keyRing.forget }
  /** Sign-ups under way by what was sent, so that a request that is repeated meanwhile gets the same answer. */
  const underWay = new Map<string, Promise<SignedUp>>()

  app.post<{ Body: Infer<typeof body> }>(
    '/api/agent/signup',
    {
      ...limitSignUps(api, nonceLifeMs),
      schema: {
        tags: ['Agent'],
        summary: 'Open a store, or sign in to it',
        description:
          'A new wallet gets a store; a known one gets another key of the store it has. Sending the same signed text again, as a client does that heard no answer, gets the same answer and is not counted again.',
        body,
        response: answers({ 200: success(data), 201: success(data) }, 400, 401, 409, 429, 503),
      },
    },
    async (request, reply) => {
      const id = createHash('sha256').update(JSON.stringify(request.body)).digest('hex')
      let running = underWay.get(id)
      if (running === undefined) {
        running = signUp(ports, request.body).finally(() => underWay.delete(id))
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
