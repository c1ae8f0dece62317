import { visibleJson } from '../../../core/text/visibleText.ts'
import { VaultError } from '../../errors/error.ts'

const segment = /^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$/
const LONGEST_SCOPE = 200
const MOST_SEGMENTS = 8

type Rest = 'none' | 'one' | 'some'

/** Every scope there is: exact names, and names under which one or more segments of the owner's own choosing stand. */
const table: Readonly<Record<string, Rest>> = {
  'identity.name': 'none',
  'identity.email': 'none',
  'identity.phone': 'none',
  'identity.birth_date': 'none',
  'identity.nationality': 'none',
  'identity.organization': 'none',
  'identity.tax_id': 'none',
  'identity.username': 'none',
  'identity.website': 'none',
  'address.home': 'none',
  'address.work': 'none',
  'address.shipping': 'one',
  'address.billing': 'one',
  'credentials.api': 'one',
  wallet: 'one',
  preferences: 'some',
  custom: 'some',
  'vault.lock': 'none',
}

/** Names for `scope_examples` and for messages; what stands in angle brackets is the owner's own. */
export const scopeForms: readonly string[] = Object.entries(table).map(([name, rest]) => {
  if (rest === 'none') return name
  if (name === 'credentials.api') return `${name}.<provider>`
  if (name === 'wallet') return `${name}.<chain>`
  return rest === 'one' ? `${name}.<name>` : `${name}.*`
})

/**
 * Whether this is the exact name of a scope: lower case, whole segments between dots, at most 8 of them and 200
 * characters. Nothing is trimmed, lowered or guessed.
 */
export function isScope(text: string): boolean {
  if (typeof text !== 'string' || text.length > LONGEST_SCOPE) return false
  const segments = text.split('.')
  if (segments.length > MOST_SEGMENTS || !segments.every((part) => segment.test(part))) return false
  for (let length = segments.length; length > 0; length--) {
    const name = segments.slice(0, length).join('.')
    if (!Object.hasOwn(table, name)) continue
    const more = segments.length - length
    const rest = table[name]!
    return rest === 'none' ? more === 0 : rest === 'one' ? more === 1 : more >= 1
  }
  return false
}

/** The scope itself. @throws `UNKNOWN_SCOPE`, for aliases and near misses too. */
export function parseScope(text: string): string {
  if (isScope(text)) return text
  throw new VaultError(
    'UNKNOWN_SCOPE',
    `Expected one of ${scopeForms.join(', ')}, got ${printable(text)}. Names are exact; there are no aliases.`,
  )
}

/**
 * What an owner can grant: a scope, or `<segments>.*` for everything below those segments (`identity.*`,
 * `credentials.api.*`, `custom.travel.*`). `*` alone is no grant. @throws `UNKNOWN_SCOPE`.
 */
export function parseGrant(text: string): string {
  if (isScope(text)) return text
  if (typeof text === 'string' && text.length <= LONGEST_SCOPE && text.endsWith('.*')) {
    const below = text.slice(0, -2)
    const names = Object.keys(table)
    const isAbove = names.some((name) => name === below || name.startsWith(`${below}.`))
    // Above or at a name that has something below it, or under a name that takes several segments.
    if (isAbove && table[below] !== 'none') return text
    if (isScope(below) && names.some((name) => table[name] === 'some' && below.startsWith(`${name}.`)))
      return text
  }
  throw new VaultError(
    'UNKNOWN_SCOPE',
    `Expected a scope or the segments above some of them and .*, such as identity.name or preferences.*, got ${printable(text)}.`,
  )
}

/** Whether a grant covers a scope, segment by segment: `custom.pay.*` covers `custom.pay.day`, not `custom.payday`. */
export function grantCovers(grant: string, scope: string): boolean {
  if (!isScope(scope)) return false
  if (!grant.endsWith('.*')) return grant === scope
  const above = grant.slice(0, -2).split('.')
  const segments = scope.split('.')
  return segments.length > above.length && above.every((part, i) => part === segments[i])
}

/**
 * Whether a scope, or a grant of several, names secrets: credentials, and what the owner keeps under names of their own,
 * which may be anything. The other values say who the owner is; agents ask for them all the time.
 */
export const namesSecrets = (scope: string): boolean => /^(?:credentials|custom)\./.test(scope)

function printable(text: unknown): string {
  return visibleJson(String(text).slice(0, 80))
}
