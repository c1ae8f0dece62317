import type { FastifyInstance } from 'fastify'
import { canonicalAddress, handOutText } from '../auth/walletText.ts'
import type { Api } from '../deps.ts'
import { isoTime, ok } from '../http/envelope.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { answers, exactly, success, text, time } from '../schema/answers.ts'
import { chainField, walletField } from '../schema/fields.ts'
import type { Infer } from '../schema/infer.ts'
import { signUpStatement } from './signUp.ts'

const body = {
  type: 'object',
  additionalProperties: false,
  required: ['address', 'chain'],
  properties: { address: walletField, chain: chainField },
} as const

/** `POST /api/agent/auth/nonce`: the text that a wallet signs to open its store. */
export function nonceRoute(app: FastifyInstance, api: Api): void {
  app.post<{ Body: Infer<typeof body> }>(
    '/api/agent/auth/nonce',
    {
      onRequest: limitPerClient(api, 'nonce', api.limits.noncePerMinute, minuteMs),
      schema: {
        summary: 'Get a text to sign',
        description:
          'The nonce lives five minutes, is good for one sign-up, and is bound to address and chain.',
        body,
        response: answers(
          { 200: success(exactly({ nonce: text(), message: text('Sign exactly this.'), expiresAt: time })) },
          400,
          403,
          429,
        ),
      },
    },
    async (request) => {
      const { chain } = request.body
      const address = canonicalAddress(api, chain, request.body.address)
      const text = await handOutText(api, { chain, address, statement: signUpStatement })
      return ok({ nonce: text.nonce, message: text.message, expiresAt: isoTime(text.expiresAtMs) })
    },
  )
}
