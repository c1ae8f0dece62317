import {
  bioField,
  displayNameField,
  fromAnswers,
  httpUrlField,
  signatureField,
  signedTextField,
  usernameField,
} from '../schema/fields.ts'
import type { Infer } from '../schema/infer.ts'

const payoutWallet = { type: ['string', 'null'], minLength: 1, maxLength: 128 } as const

export const payoutField = {
  type: 'object',
  additionalProperties: false,
  description:
    'The wallets that buyers pay; a chain that is left out stays as it is, null takes its wallet away.',
  properties: { base: payoutWallet, solana: payoutWallet, ...fromAnswers('changedAt', 'warnings') },
} as const

export const usernameNonceField = {
  ...usernameField,
  description: 'The name that the store is to have.',
} as const

const proofField = (when: string, field: 'payout' | 'username') =>
  ({
    type: 'object',
    additionalProperties: false,
    required: ['message', 'signature'],
    description: `${when}: the message of POST /api/v1/profile/${field}/nonce, unchanged, and the store's wallet's signature of it.`,
    properties: { message: signedTextField, signature: signatureField },
  }) as const

/** What `PATCH /api/v1/profile` takes; null clears. */
export const profileBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    username: {
      ...usernameField,
      description:
        'An old name redirects for 30 days. A store that has sold keeps each of them from other stores for that long, and its rename needs usernameProof; one that has not keeps the last. A store is renamed so many times in 24 hours (two, unless the operator says otherwise).',
    },
    displayName: { ...displayNameField, type: ['string', 'null'] },
    bio: bioField,
    avatarUrl: httpUrlField,
    developerModeEnabled: {
      type: 'boolean',
      description:
        'Of the dashboard: off hides keys and webhooks there. Keys go on working, and this API is not touched.',
    },
    payout: payoutField,
    payoutProof: proofField('With a payout that changes', 'payout'),
    usernameProof: proofField('With a username that changes, of a store that has sold', 'username'),
    ...fromAnswers('userId', 'createdBy', 'createdAt', 'updatedAt', 'socials'),
  },
} as const

export type ProfileBody = Infer<typeof profileBody>
