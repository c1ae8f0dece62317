import type { Store } from '../../core/domain/store.ts'
import { isoTime, isoTimeOrNull } from '../http/envelope.ts'
import { exactly, flag, listOf, text, textOrNull, time, timeOrNull, uuid } from '../schema/answers.ts'
import { ownSocials } from '../socials/socialsView.ts'

const payoutFields = {
  base: textOrNull(),
  solana: textOrNull(),
  changedAt: {
    ...timeOrNull,
    description: 'When a wallet was last changed; null while they are those of the sign-up.',
  },
}

/** A store as its owner sees it: the fields of the marketplace interface, and `payout`. */
export const profileSchema = exactly({
  userId: uuid,
  username: text(),
  displayName: text(),
  bio: text(),
  avatarUrl: text(),
  developerModeEnabled: flag,
  createdBy: text(),
  createdAt: time,
  updatedAt: time,
  socials: ownSocials,
  payout: {
    ...exactly(payoutFields, 'The wallets that buyers pay.'),
    properties: {
      ...payoutFields,
      warnings: listOf(
        text('Why a wallet can not be paid, and what to do. Left out when there is nothing to say.'),
      ),
    },
  },
})

export const toProfile = (store: Store, warnings: readonly string[]) => ({
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
