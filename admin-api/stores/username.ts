import { randomInt } from 'node:crypto'
import type { TollgateError } from '../../core/errors/error.ts'
import { validationError } from '../schema/validationError.ts'

/** Marketplace interface, section 2. */
export const usernamePattern = '^[a-z0-9_]{3,32}$'
export const usernameForm = new RegExp(usernamePattern)

/**
 * Names whose page `{base}/<username>` is, or may become, something of the service's own, or that would pass for it.
 * Only those that have the form of a username: `openapi.json` and `.well-known` can't be one anyway.
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

/** Whether a name is or may become an address of the service's own. */
export const isReservedUsername = (username: string): boolean => reserved.has(username)

/** Digits that stand for a letter; 1 stands for two. */
const letterOf: Readonly<Record<string, string>> = { 0: 'o', 3: 'e', 4: 'a', 5: 's', 7: 't', 8: 'b' }

/** What a name is read as, without underscores and with letters for digits: `c01nba5e` as `coinbase`. */
function readingsOf(name: string): string[] {
  const letters = name
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')
    .replace(/[034578]/g, (digit) => letterOf[digit]!)
  return [letters.replaceAll('1', 'i'), letters.replaceAll('1', 'l')]
}

/**
 * Makes the check of names that sellers choose: no address of the service's own, not its name, and none of the words and
 * brands by which a store could pass for somebody else: with underscores or without, in digits that look like letters, or
 * several of them together (`coinbase_support`).
 */
export function createNameCheck(words: readonly string[], serviceName: string): (name: string) => boolean {
  const claimed = new Set([...words, serviceName].flatMap(readingsOf).filter(Boolean))
  const isClaimed = (name: string) => readingsOf(name).some((reading) => claimed.has(reading))
  const isOfClaimed = (parts: readonly string[]) => parts.length > 0 && parts.every(isClaimed)
  return (name) => isReservedUsername(name) || isClaimed(name) || isOfClaimed(name.split('_').filter(Boolean))
}

/** The refusal of such a name. */
export const reservedUsername = (): TollgateError =>
  validationError([
    { path: 'username', code: 'reserved', message: 'This name is reserved; choose another username.' },
  ])

const letters = 'abcdefghijkmnpqrstuvwxyz23456789'

/** A name for a store whose owner gave none: `agent_` and ten characters, none of which looks like another. */
export const randomUsername = (): string =>
  `agent_${Array.from({ length: 10 }, () => letters[randomInt(letters.length)]).join('')}`
