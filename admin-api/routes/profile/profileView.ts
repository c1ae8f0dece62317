import type { Store } from '../../../core/domain/store.ts'
import { isoTime } from '../../http/envelope.ts'
import { exactly, flag, text, textOrNull, time, uuid } from '../../schema/answers.ts'

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
  payout: exactly({ base: textOrNull(), solana: textOrNull() }, 'The wallets that buyers pay.'),
})

export const toProfile = (store: Store) => ({
  userId: store.id,
  username: store.username,
  displayName: store.displayName,
  bio: store.bio,
  avatarUrl: store.avatarUrl,
  developerModeEnabled: store.developerModeEnabled,
  createdBy: store.createdBy,
  createdAt: isoTime(store.createdAtMs),
  updatedAt: isoTime(store.updatedAtMs),
  payout: { base: store.payout.base, solana: store.payout.solana },
})
