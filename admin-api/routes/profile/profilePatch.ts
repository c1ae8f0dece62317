import { isPaid, type Payout } from '../../../core/domain/link.ts'
import type { Store } from '../../../core/domain/store.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import type { StorePatch } from '../../../core/ports/stores.ts'
import { canonicalAddress } from '../../auth/canonicalAddress.ts'
import { reservedUsername } from '../../auth/username.ts'
import type { Api } from '../../deps.ts'
import { bioField, displayNameField, fromAnswers, httpUrlField, usernameField } from '../../schema/fields.ts'
import type { Infer } from '../../schema/infer.ts'
import { canBePaid } from './canBePaid.ts'

const payoutWallet = { type: ['string', 'null'], minLength: 1, maxLength: 128 } as const

/** What `PATCH /api/v1/profile` takes; null clears. */
export const profileBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    username: {
      ...usernameField,
      description:
        'The last old name redirects for 30 days. A store is renamed so many times in 24 hours (two, unless the operator says otherwise).',
    },
    displayName: { ...displayNameField, type: ['string', 'null'] },
    bio: bioField,
    avatarUrl: httpUrlField,
    developerModeEnabled: {
      type: 'boolean',
      description:
        'Of the dashboard: off hides keys and webhooks there. Keys go on working, and this API is not touched.',
    },
    payout: {
      type: 'object',
      additionalProperties: false,
      description: 'The wallets that buyers pay; a chain that is left out stays as it is.',
      properties: { base: payoutWallet, solana: payoutWallet },
    },
    ...fromAnswers('userId', 'createdBy', 'createdAt', 'updatedAt'),
  },
} as const

export type ProfileBody = Infer<typeof profileBody>

/** Reads a profile body into what changes. @throws `VALIDATION_ERROR`, `INVALID_ADDRESS`, `CONFLICT` */
export async function readProfilePatch(api: Api, store: Store, body: ProfileBody): Promise<StorePatch> {
  const { username, displayName, bio, avatarUrl, developerModeEnabled } = body
  if (username !== undefined && username !== store.username && api.isReservedUsername(username)) {
    throw reservedUsername()
  }
  const payout = body.payout === undefined ? undefined : readPayout(api, body.payout)
  if (payout !== undefined) await refuseUnpayable(api, store, { ...store.payout, ...payout })
  return {
    ...(username !== undefined && { username }),
    ...(displayName !== undefined && { displayName: displayName ?? username ?? store.username }),
    ...(bio !== undefined && { bio: bio ?? '' }),
    ...(avatarUrl !== undefined && { avatarUrl: avatarUrl ?? '' }),
    ...(developerModeEnabled !== undefined && { developerModeEnabled }),
    ...(payout !== undefined && { payout }),
  }
}

/** The chains that were sent, and no other: the other wallet may be changing at the same time. */
function readPayout(api: Api, given: NonNullable<ProfileBody['payout']>): Partial<Payout> {
  const read = (chain: 'base' | 'solana'): Partial<Payout> => {
    const address = given[chain]
    if (address === undefined) return {}
    return { [chain]: address === null ? null : canonicalAddress(api, chain, address) }
  }
  return { ...read('base'), ...read('solana') }
}

/** A paid link that nobody can be paid for would answer buyers with an offer of nothing. */
async function refuseUnpayable(api: Api, store: Store, payout: Payout): Promise<void> {
  if (canBePaid(api, payout) || !canBePaid(api, store.payout)) return
  const paid = (await api.links.ofStore(store.id)).filter(isPaid)
  if (paid.length === 0) return
  throw new TollgateError(
    'CONFLICT',
    `${paid.length} paid links need a payout wallet. Make them free or delete them first, or name another wallet.`,
  )
}
