import { randomInt } from 'node:crypto'
import type { TollgateError } from '../../core/errors/error.ts'
import { usernamePattern } from '../http/fields.ts'
import { validationError } from '../http/validation.ts'

export const usernameForm = new RegExp(usernamePattern)

/**
 * Usernames whose page `{base}/<username>` is or may become an address of the service, or that could be mistaken for the service.
 * The list has only names in the form of a username, so `openapi.json` and `.well-known` are not in it.
 */
const reserved = new Set(
  `about account accounts admin administrator agent agents api app assets auth avatar billing blog callback cart
  checkout contact cookies dashboard developer developers discover discovery docs documentation
  embed error errors explore facilitator faq favicon feed files guide guides healthz health help home hooks
  icons images img index info invoice js jobs learn legal link links llms login logout manifest marketplace
  mcp me media metrics new news nonce null oauth openapi operator orders pay payment payments payout payouts
  ping plugins policy pricing privacy product products profile public purchase purchases readyz ready
  receipt receipts refund refunds register relay review reviews robots root sale sales search security seller
  sellers service session sessions settings settle setup shop signin signout signup sitemap social socials
  staff static stats status store stores styles support supported swagger system team terms test tollgate
  transactions true false undefined update upload uploads user username users vault verify version wallet
  wallets webhook webhooks well_known widget withdraw withdrawals www x402`
    .split(/\s+/)
    .filter(Boolean),
)

/** Whether a username is or may become an address of the service. */
export const isReservedUsername = (username: string): boolean => reserved.has(username)

/** Digits that look like a letter. 1 is not in the list, because it looks like two letters. */
const letterOf: Readonly<Record<string, string>> = { 0: 'o', 3: 'e', 4: 'a', 5: 's', 7: 't', 8: 'b' }

/**
 * The words as which a name can be read, without underscores and with letters for digits. For example, `c01nba5e` reads as
 * `coinbase`.
 */
function readingsOf(name: string): string[] {
  const letters = name
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')
    .replace(/[034578]/g, (digit) => letterOf[digit]!)
  return [letters.replaceAll('1', 'i'), letters.replaceAll('1', 'l')]
}

/**
 * Creates the check of sellers' usernames. It refuses the service's addresses, its name, and words and brands with which a store
 * could be mistaken for another business. The check finds a word in spite of underscores, in spite of digits that look like
 * letters, and in combinations such as `coinbase_support`.
 */
export function createNameCheck(words: readonly string[], serviceName: string): (name: string) => boolean {
  const claimed = new Set([...words, serviceName].flatMap(readingsOf).filter(Boolean))
  const isClaimed = (name: string) => readingsOf(name).some((reading) => claimed.has(reading))
  const isOfClaimed = (parts: readonly string[]) => parts.length > 0 && parts.every(isClaimed)
  return (name) => isReservedUsername(name) || isClaimed(name) || isOfClaimed(name.split('_').filter(Boolean))
}

/** The error for a reserved name. */
export const reservedUsername = (): TollgateError =>
  validationError([
    { path: 'username', code: 'reserved', message: 'This name is reserved. Choose another username.' },
  ])

const alphabet = 'abcdefghijkmnpqrstuvwxyz23456789'

/**
 * A random username for a store whose owner gave none. It has `agent_` and ten characters that cannot be mistaken for each other.
 */
export const randomUsername = (): string =>
  `agent_${Array.from({ length: 10 }, () => alphabet[randomInt(alphabet.length)]).join('')}`
