import type { Store } from '../../../core/domain/store.ts'
import { isoTime } from '../../http/envelope.ts'
import { exactly, flag, listOf, text, textOrNull, time, uuid } from '../../schema/answers.ts'

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
  payout: {
    ...exactly({ base: textOrNull(), solana: textOrNull() }, 'The wallets that buyers pay.'),
    properties: {
      base: textOrNull(),
      solana: textOrNull(),
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
  payout: {
    base: store.payout.base,
    solana: store.payout.solana,
    ...(warnings.length > 0 && { warnings }),
  },
})
