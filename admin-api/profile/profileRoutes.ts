import type { FastifyInstance } from 'fastify'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { usernameTaken } from '../../core/ports/refusals.ts'
import { callerOf } from '../auth/authenticate.ts'
import { handOutText } from '../auth/walletText.ts'
import type { Api } from '../deps.ts'
import { isoTime, ok } from '../http/envelope.ts'
import { answers, exactly, success, text, time } from '../schema/answers.ts'
import type { Infer } from '../schema/infer.ts'
import { profileChanger, refuseUnpayable } from './changeProfile.ts'
import { payoutSigners, payoutStatement, readPayoutChange } from './payout.ts'
import { type ProfileBody, payoutField, profileBody, usernameNonceField } from './profileBody.ts'
import { profileSchema, toProfile } from './profileView.ts'
import { readRename, signedRename } from './rename.ts'
import type { Signer } from './storeProof.ts'

const payoutNonceBody = {
  type: 'object',
  additionalProperties: false,
  required: ['payout'],
  properties: { payout: payoutField },
} as const

const usernameNonceBody = {
  type: 'object',
  additionalProperties: false,
  required: ['username'],
  properties: { username: usernameNonceField },
} as const

const nonceAnswer = exactly({
  nonce: text(),
  message: text('Sign exactly this.'),
  expiresAt: time,
  address: text('The wallet that has to sign.'),
  chain: { enum: ['base', 'solana'] },
})

/** `/api/v1/profile`: the caller's own store. Reading it has no envelope (marketplace interface, section 2). */
export function profileRoutes(app: FastifyInstance, api: Api): void {
  const changeProfile = profileChanger(api)
  const view = async (store: Store) => toProfile(store, await api.payoutFaults(store.payout))
  const handOut = async (signer: Signer, statement: string) => {
    const { nonce, message, expiresAtMs, address, chain } = await handOutText(api, { ...signer, statement })
    return ok({ nonce, message, expiresAt: isoTime(expiresAtMs), address, chain })
  }

  app.get(
    '/api/v1/profile',
    { schema: { summary: 'Read the profile', response: answers({ 200: profileSchema }, 401, 429) } },
    async (request) => view(callerOf(request).store),
  )

  app.patch<{ Body: ProfileBody }>(
    '/api/v1/profile',
    {
      schema: {
        summary: 'Change the profile',
        description:
          "A payout that changes needs payoutProof: the store's wallet signs the text of POST /api/v1/profile/payout/nonce. A username that changes needs usernameProof once the store has sold: the text is that of POST /api/v1/profile/username/nonce. The rest needs the API key only.",
        body: profileBody,
        response: answers({ 200: success(profileSchema) }, 400, 401, 403, 409, 429, 503),
      },
    },
    async (request) => ok(await view(await changeProfile(callerOf(request).store, request.body))),
  )

  app.post<{ Body: Infer<typeof payoutNonceBody> }>(
    '/api/v1/profile/payout/nonce',
    {
      schema: {
        summary: 'Get a text to sign for a change of payout',
        description:
          'The text says which wallets change. It lives five minutes and is good for one PATCH of the profile with exactly this payout, signed by the wallet that is named: the one that signs in to the store; where none does, the one that is paid on that chain now.',
        body: payoutNonceBody,
        response: answers({ 200: success(nonceAnswer) }, 400, 401, 403, 409, 429),
      },
    },
    async (request) => {
      const { store } = callerOf(request)
      const change = readPayoutChange(api, store, request.body.payout)
      if (change === undefined) {
        throw new TollgateError('CONFLICT', 'The store is paid there already; there is nothing to sign.')
      }
      await refuseUnpayable(api, store, change)
      const [signer] = await payoutSigners(api, store, change)
      return handOut(signer!, payoutStatement(store, change))
    },
  )

  app.post<{ Body: Infer<typeof usernameNonceBody> }>(
    '/api/v1/profile/username/nonce',
    {
      schema: {
        summary: 'Get a text to sign for a rename',
        description:
          'The text says what the store is called and what it will be called. It lives five minutes and is good for one PATCH of the profile with exactly this username, signed by the wallet that is named: the one that signs in to the store; where none does, one that is paid. A store that has sold nothing yet is renamed without it.',
        body: usernameNonceBody,
        response: answers({ 200: success(nonceAnswer) }, 400, 401, 403, 409, 429),
      },
    },
    async (request) => {
      const { store } = callerOf(request)
      const username = readRename(api, store, request.body.username)
      if (username === undefined)
        throw new TollgateError('CONFLICT', 'The store has this name already; there is nothing to sign.')
      if ((await api.stores.byUsername(username)) !== undefined) throw usernameTaken(username)
      const { signers, statement } = await signedRename(api, store, username)
      return handOut(signers[0]!, statement)
    },
  )
}
