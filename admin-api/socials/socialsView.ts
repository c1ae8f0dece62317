import { type Social, socialTypes } from '../../core/domain/store.ts'
import { exactly, flag, listOf, text } from '../schema/answers.ts'

/** A social as its seller sees it. */
export const ownSocials = listOf(
  exactly({ type: { enum: socialTypes }, url: text(), displayOrder: { type: 'integer' }, isVisible: flag }),
)
/** What strangers see of it. */
export const publicSocials = listOf(exactly({ type: { enum: socialTypes }, url: text() }))

export const toPublicSocials = (socials: readonly Social[]) =>
  socials.filter(({ isVisible }) => isVisible).map(({ type, url }) => ({ type, url }))
