import type { FastifyInstance } from 'fastify'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { usernameTaken } from '../../core/ports/refusals.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { exactly, field, isoTime, isoTimeOrNull, listOf, ok, respond, success } from '../http/responses.ts'
import {
  type ProfileBody,
  payoutField,
  profileBody,
  profileChanger,
  readRename,
  refuseUnpayable,
  signedRename,
  usernameNonceField,
} from './profileChanges.ts'
import { payoutSigners, payoutStatement, readPayoutChange, type Signer } from './signedChanges.ts'
import { ownSocials } from './socials.ts'
import { issueSignInText, signTextResponse } from './walletText.ts'

const payoutFields = {
  base: field.textOrNull(),
  solana: field.textOrNull(),
  changedAt: {
    ...field.timeOrNull,
    description: 'The time at which a payout wallet was last changed. Null if it was never changed.',
  },
}

/** A store as its owner sees it. It has the fields of the marketplace interface, and `payout`. */
const profileSchema = exactly({
  userId: field.uuid,
  username: field.text(),
  displayName: field.text(),
  bio: field.text(),
  avatarUrl: field.text(),
  developerModeEnabled: field.flag,
  createdBy: field.text(),
  createdAt: field.time,
  updatedAt: field.time,
  socials: ownSocials,
  payout: {
    ...exactly(payoutFields, 'The wallets that buyers pay.'),
    properties: {
      ...payoutFields,
      warnings: listOf(
        field.text('Why buyers cannot pay a wallet, and what to do. Omitted if buyers can pay all wallets.'),
      ),
    },
  },
})

const toProfile = (store: Store, warnings: readonly string[]) => ({
  userId: store.id,
  username: store.username,
  displayName: store.displayName,
  bio: store.bio,
  avatarUrl: store.avatarUrl,
  developerModeEnabled: store.developerModeEnabled,
  createdBy: store.createdBy,
  createdAt: isoTime(store.createdAtMs),
  updatedAt: isoTime(store.updatedAtMs),
  socials: store.socials,
  payout: {
    base: store.payout.base,
    solana: store.payout.solana,
    changedAt: isoTimeOrNull(store.payoutChangedAtMs),
    ...(warnings.length > 0 && { warnings }),
  },
})

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

const nonceResponse = exactly({
  ...signTextResponse.properties,
  address: field.text('The wallet that has to sign.'),
  chain: { enum: ['base', 'solana'] },
})

/** `/api/v1/profile` is the caller's own store. The response to a read has no envelope (marketplace interface, section 2). */
export function profileRoutes(app: FastifyInstance, api: Api): void {
  const changeProfile = profileChanger(api)
  const view = async (store: Store) => toProfile(store, await api.payoutFaults(store.payout))
  const issueText = async (signer: Signer, statement: string) => {
    const { nonce, message, expiresAtMs, address, chain } = await issueSignInText(api, {
      ...signer,
      statement,
    })
    return ok({ nonce, message, expiresAt: isoTime(expiresAtMs), address, chain })
  }

  app.get(
    '/api/v1/profile',
    { schema: { summary: 'Read the profile', response: respond({ 200: profileSchema }, [401, 429]) } },
    async (request) => view(callerOf(request).store),
  )

  app.patch<{ Body: ProfileBody }>(
    '/api/v1/profile',
    {
      schema: {
        summary: 'Change the profile',
        description:
          'To change payout, send payoutProof: get a text from POST /api/v1/profile/payout/nonce and sign it with the wallet of the store. If the store has sold something, a change of username needs usernameProof with a text from POST /api/v1/profile/username/nonce. Other changes need only the API key.',
        body: profileBody,
        response: respond({ 200: success(profileSchema) }, [400, 401, 403, 409, 429, 503]),
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
          'Returns a text that describes the change of payout, and the wallet that must sign the text. This is the wallet with which the store signs in. A store without such a wallet uses its current payout wallet on the chain. The text is valid for five minutes and for one PATCH of the profile with exactly this payout.',
        body: payoutNonceBody,
        response: respond({ 200: success(nonceResponse) }, [400, 401, 403, 409, 429]),
      },
    },
    async (request) => {
      const { store } = callerOf(request)
      const change = readPayoutChange(api, store, request.body.payout)
      if (change === undefined) {
        throw new TollgateError('CONFLICT', 'The store already has this payout, so there is nothing to sign.')
      }
      await refuseUnpayable(api, store, change)
      const [signer] = await payoutSigners(api, store, change)
      return issueText(signer!, payoutStatement(store, change))
    },
  )

  app.post<{ Body: Infer<typeof usernameNonceBody> }>(
    '/api/v1/profile/username/nonce',
    {
      schema: {
        summary: 'Get a text to sign for a rename',
        description:
          'Returns a text that contains the old and the new username, and the wallet that must sign the text. This is the wallet with which the store signs in. A store without such a wallet uses a payout wallet. The text is valid for five minutes and for one PATCH of the profile with exactly this username. A store that has sold nothing needs no signature for a rename.',
        body: usernameNonceBody,
        response: respond({ 200: success(nonceResponse) }, [400, 401, 403, 409, 429]),
      },
    },
    async (request) => {
      const { store } = callerOf(request)
      const username = readRename(api, store, request.body.username)
      if (username === undefined)
        throw new TollgateError('CONFLICT', 'The store already has this name, so there is nothing to sign.')
      if ((await api.stores.byUsername(username)) !== undefined) throw usernameTaken(username)
      const { signers, statement } = await signedRename(api, store, username)
      return issueText(signers[0]!, statement)
    },
  )
}
