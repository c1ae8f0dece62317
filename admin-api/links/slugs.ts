import { randomBytes, randomInt } from 'node:crypto'

const letters = 'abcdefghijkmnpqrstuvwxyz23456789'
const MAX_WORDS_CHARS = 48
const SUFFIX_CHARS = 6

/** A slug from a title: its Latin letters and digits, `Weather API (v2)` → `weather-api-v2`. */
export function slugOf(title: string): string {
  const words = title
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, MAX_WORDS_CHARS)
    .replace(/^-+|-+$/g, '')
  return words.length >= 3 ? words : withSuffix('link')
}

/** Another slug that begins alike, for a store that has the first one. */
export const withSuffix = (slug: string): string =>
  `${slug}-${Array.from({ length: SUFFIX_CHARS }, () => letters[randomInt(letters.length)]).join('')}`

/** The only address of a stealth link: 128 random bits, hex. */
export const createPrivateSlug = (): string => randomBytes(16).toString('hex')
