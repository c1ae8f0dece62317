import { hash, randomBytes, randomInt } from 'node:crypto'

const letters = 'abcdefghijkmnpqrstuvwxyz23456789'
const MAX_WORDS_CHARS = 48
const SUFFIX_CHARS = 6

/** A slug from a title: its Latin letters and digits, `Weather API (v2)` → `weather-api-v2`. */
export function slugOf(title: string): string {
  const words = wordsOf(plainOf(title))
  return words.length >= 3 ? words : withSuffix('link')
}

/**
 * A name of the same form that is always the same for a title. Where a slug does not say all letters and digits of it, the name
 * ends in its hash: `天气 API` and `地图 API` are two.
 */
export function nameOf(title: string): string {
  const plain = plainOf(title)
  const words = wordsOf(plain)
  const isWhole = plain.length <= MAX_WORDS_CHARS && !/(?![a-z0-9])[\p{L}\p{N}]/u.test(plain)
  if (isWhole && words.length >= 3) return words
  return `${words || 'api'}-${hash('sha256', title).slice(0, 8)}`
}

const plainOf = (title: string): string => title.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()

const wordsOf = (plain: string): string =>
  plain
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, MAX_WORDS_CHARS)
    .replace(/^-+|-+$/g, '')

/** Another slug that begins alike, for a store that has the first one. */
export const withSuffix = (slug: string): string =>
  `${slug}-${Array.from({ length: SUFFIX_CHARS }, () => letters[randomInt(letters.length)]).join('')}`

/** The only address of a stealth link: 128 random bits, hex. */
export const createPrivateSlug = (): string => randomBytes(16).toString('hex')
