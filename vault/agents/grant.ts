import { visibleJson } from '../../core/text/visibleText.ts'
import { VaultError } from '../errors/error.ts'

/** What an agent may do within a scope. */
export type GrantVerb = 'read' | 'write' | 'call' | 'sign' | 'address' | 'lock'

/** One parsed grant line. */
export interface Grant {
  /** As the owner wrote it. */
  readonly text: string
  readonly scope: string
  readonly verb: GrantVerb
  /** True when the owner's approval is needed each time. */
  readonly asks: boolean
}

const verbs: readonly GrantVerb[] = ['read', 'write', 'call', 'sign', 'address', 'lock']
const secrets = 'credentials.api'

/**
 * Parses one grant line: `[ask:|auto:][verb:]scope`, where the scope is exact or ends in `.*`.
 *
 * Without a verb, the kind of the scope decides. Values may be read, and written with the owner's approval each time.
 * Credentials may be used by `/v1/vault/call` but never read. Wallets may sign within the rules. Reading a credential needs
 * an explicit grant (`read:credentials.api.github`), and the owner's approval each time. `vault.lock` lets an agent lock the
 * vault without approval.
 *
 * @throws `UNKNOWN_SCOPE`, `VALIDATION_ERROR`
 */
export function parseGrantLine(text: string): readonly Grant[] {
  const parts = text.split(':')
  const mode = parts[0] === 'ask' || parts[0] === 'auto' ? parts.shift() : undefined
  const verb = parts.length > 1 ? parts.shift() : undefined
  const scope = parseGrant(parts.join(':'))
  if (verb !== undefined && !verbs.includes(verb as GrantVerb)) {
    throw invalid(
      `Expected a grant such as read:${scope}. The words before the scope are ask, auto, ${verbs.join(', ')}.`,
    )
  }
  const kind = kindOf(scope)
  const asked = (one: GrantVerb): boolean => asksByDefault(kind, one)
  const wanted = verb === undefined ? usual[kind] : [verb as GrantVerb]
  for (const one of wanted)
    if (!possible[kind].includes(one)) throw invalid(`The verb ${one} does not apply to ${scope}.`)
  if (mode === 'auto' && kind === 'credential' && wanted.includes('read')) {
    throw invalid(
      'A credential cannot be read without approval. Grant the credential for calls, or with read: and approval.',
    )
  }
  if (mode === 'ask' && kind === 'vault')
    throw invalid('Locking never asks for approval. Grant vault.lock without ask:, or not at all.')
  return wanted.map((one) => ({
    text,
    scope,
    verb: one,
    asks: mode === undefined ? asked(one) : mode === 'ask',
  }))
}

/**
 * What an agent's grants allow for one action.
 *
 * @returns undefined when no grant allows the action. Otherwise whether the owner has to approve it, by the least strict line
 */
export function grantFor(
  grants: readonly Grant[],
  verb: GrantVerb,
  scope: string,
): { readonly asks: boolean } | undefined {
  let found: { asks: boolean } | undefined
  for (const grant of grants) {
    if (grant.verb !== verb || !grantCovers(grant.scope, scope)) continue
    if (!grant.asks) return { asks: false }
    found = { asks: true }
  }
  return found
}

/** The grants with which an agent may read secrets. */
export const secretReads = (grants: readonly Grant[]): readonly Grant[] =>
  grants.filter(({ verb, scope }) => verb === 'read' && namesSecrets(scope))

type Kind = 'value' | 'credential' | 'wallet' | 'vault'

const usual: Readonly<Record<Kind, readonly GrantVerb[]>> = {
  value: ['read', 'write'],
  credential: ['call'],
  wallet: ['sign', 'address'],
  vault: ['lock'],
}
const possible: Readonly<Record<Kind, readonly GrantVerb[]>> = {
  value: ['read', 'write'],
  credential: ['call', 'read', 'write'],
  wallet: ['sign', 'address'],
  vault: ['lock'],
}

/**
 * Whether a verb needs the owner's approval if its line has neither `ask:` nor `auto:`. Signing does not, because the rules and
 * their budgets decide about it. With `ask:`, not even the rules can approve it.
 */
function asksByDefault(kind: Kind, verb: GrantVerb): boolean {
  return verb === 'write' || (kind === 'credential' && verb === 'read')
}

function kindOf(scope: string): Kind {
  // `credentials.*` covers only credentials, so the first segment decides.
  if (scope === secrets || scope.startsWith('credentials.')) return 'credential'
  if (scope.startsWith('vault.')) return 'vault'
  return scope.startsWith('wallet.') ? 'wallet' : 'value'
}

const invalid = (message: string): VaultError => new VaultError('VALIDATION_ERROR', message)

const segment = /^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$/
const LONGEST_SCOPE = 200
const MAX_SEGMENTS = 8

type Rest = 'none' | 'one' | 'some'

/** All scopes: exact names, and prefixes that the owner extends with one or more segments. */
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

/** Names for `scope_examples` and for messages. The owner chooses the parts in angle brackets. */
export const scopeForms: readonly string[] = Object.entries(table).map(([name, rest]) => {
  if (rest === 'none') return name
  if (name === 'credentials.api') return `${name}.<provider>`
  if (name === 'wallet') return `${name}.<chain>`
  return rest === 'one' ? `${name}.<name>` : `${name}.*`
})

/**
 * Whether this is the exact name of a scope: lower case, whole segments between dots, at most 8 segments and 200 characters.
 * The text is not trimmed, lowercased or corrected.
 */
export function isScope(text: string): boolean {
  if (typeof text !== 'string' || text.length > LONGEST_SCOPE) return false
  const segments = text.split('.')
  if (segments.length > MAX_SEGMENTS || !segments.every((part) => segment.test(part))) return false
  for (let length = segments.length; length > 0; length--) {
    const name = segments.slice(0, length).join('.')
    if (!Object.hasOwn(table, name)) continue
    const more = segments.length - length
    const rest = table[name]!
    return rest === 'none' ? more === 0 : rest === 'one' ? more === 1 : more >= 1
  }
  return false
}

/** The scope. @throws `UNKNOWN_SCOPE`, also for aliases and near misses */
export function parseScope(text: string): string {
  if (isScope(text)) return text
  throw new VaultError(
    'UNKNOWN_SCOPE',
    `Expected one of ${scopeForms.join(', ')}, got ${printable(text)}. Names are exact and have no aliases.`,
  )
}

/**
 * Parses a grant, which is a scope, or `<segments>.*` for everything below these segments (`identity.*`, `credentials.api.*`,
 * `custom.travel.*`). `*` alone is not a grant. @throws `UNKNOWN_SCOPE`
 */
export function parseGrant(text: string): string {
  if (isScope(text)) return text
  if (typeof text === 'string' && text.length <= LONGEST_SCOPE && text.endsWith('.*')) {
    const below = text.slice(0, -2)
    const names = Object.keys(table)
    const isAbove = names.some((name) => name === below || name.startsWith(`${below}.`))
    // The prefix either is the beginning of a longer name, or stands before segments that the owner chooses.
    if (isAbove && table[below] !== 'none') return text
    if (isScope(below) && names.some((name) => table[name] === 'some' && below.startsWith(`${name}.`)))
      return text
  }
  throw new VaultError(
    'UNKNOWN_SCOPE',
    `Expected a scope such as identity.name, or a prefix with .* such as preferences.*, got ${printable(text)}.`,
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
 * Whether a scope, or a grant of several, names secrets: credentials, and values under names that the owner chose. The other
 * values describe the owner, and agents request them routinely.
 */
export const namesSecrets = (scope: string): boolean => /^(?:credentials|custom)\./.test(scope)

function printable(text: unknown): string {
  return visibleJson(String(text).slice(0, 80))
}
