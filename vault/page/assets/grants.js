/** Every scope there is, and how many segments of the owner's own follow it; a test holds it against vault/storage/records/scopes.ts. */
/** @type {Readonly<Record<string, 'none' | 'one' | 'some'>>} */
const table = {
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

const segment = /^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$/
const longestScope = 200
const mostSegments = 8
const verbs = ['read', 'write', 'call', 'sign', 'address', 'lock']
/** @type {Readonly<Record<string, readonly string[]>>} */
const possible = {
  value: ['read', 'write'],
  credential: ['call', 'read', 'write'],
  wallet: ['sign', 'address'],
  vault: ['lock'],
}

/** Scopes that have one exact name: what can be offered without asking anybody. */
export const exactScopes = Object.keys(table).filter((name) => table[name] === 'none')

/**
 * What can be granted of a scope: what stands before its name, and what that means. The first is the usual one.
 *
 * @type {Readonly<Record<string, readonly (readonly [string, string])[]>>}
 */
const ways = {
  value: [
    ['', 'Read it; ask before it writes'],
    ['ask:', 'Ask every time'],
    ['read:', 'Read it only'],
    ['ask:read:', 'Read it only, ask every time'],
    ['auto:', 'Read and write without asking'],
  ],
  credential: [
    ['', 'Use it in calls, never see it'],
    ['ask:', 'Use it in calls, ask every time'],
    ['read:', 'See the secret itself, ask every time'],
  ],
  wallet: [
    ['', 'Sign as its policy says'],
    ['ask:', 'Ask every time'],
    ['address:', 'See the address only'],
  ],
  vault: [['', 'Lock the vault']],
}

/** @param {string} scope @returns {'value' | 'credential' | 'wallet' | 'vault'} */
export function kindOfScope(scope) {
  if (scope === 'credentials.api' || scope.startsWith('credentials.')) return 'credential'
  if (scope.startsWith('vault.')) return 'vault'
  return scope.startsWith('wallet.') ? 'wallet' : 'value'
}

/**
 * The vault lets an agent read values of the owner's own kind without asking by a command in a terminal only.
 *
 * @param {string} scope @returns {readonly (readonly [string, string])[]}
 */
export const waysOf = (scope) =>
  (ways[kindOfScope(scope)] ?? []).filter(
    ([before]) => !scope.startsWith('custom.') || before.startsWith('ask:'),
  )

/** A line taken apart: what stands before the scope, and the scope. @param {string} line */
export function splitGrant(line) {
  const at = line.lastIndexOf(':') + 1
  return { before: line.slice(0, at), scope: line.slice(at) }
}

/** Whether a line hands a secret itself to an agent, which nothing takes back. @param {string} line */
export function isLoud(line) {
  const { before, scope } = splitGrant(line)
  return kindOfScope(scope) === 'credential' && /(?:^|:)read:$/.test(before)
}

/**
 * What is wrong with a line of grants, or undefined. The vault has the last word; this says it while it is typed.
 *
 * @param {string} line
 */
export function problemOf(line) {
  const parts = line.split(':')
  const mode = parts[0] === 'ask' || parts[0] === 'auto' ? parts.shift() : undefined
  const verb = parts.length > 1 ? parts.shift() : undefined
  const scope = parts.join(':')
  if (!isGrantable(scope))
    return `There is no scope ${JSON.stringify(scope.slice(0, 80))}. Names are exact, such as identity.email, wallet.base, credentials.api.github or custom.travel.*`
  if (verb !== undefined && !verbs.includes(verb))
    return `Before a scope stand ask, auto, ${verbs.join(', ')}.`
  const kind = kindOfScope(scope)
  if (verb !== undefined && !possible[kind]?.includes(verb))
    return `Nothing can be done by ${verb} with ${scope}.`
  if (mode === 'auto' && kind === 'credential' && verb === 'read')
    return 'A credential is never read without asking you.'
  if (mode === 'ask' && kind === 'vault') return 'Nobody is asked about a lock.'
  return undefined
}

/** @param {string} text */
function isScope(text) {
  const segments = text.split('.')
  if (text.length > longestScope || segments.length > mostSegments) return false
  if (!segments.every((part) => segment.test(part))) return false
  for (let length = segments.length; length > 0; length--) {
    const name = segments.slice(0, length).join('.')
    if (!Object.hasOwn(table, name)) continue
    const more = segments.length - length
    return table[name] === 'none' ? more === 0 : table[name] === 'one' ? more === 1 : more >= 1
  }
  return false
}

/** @param {string} text */
function isGrantable(text) {
  if (isScope(text)) return true
  if (text.length > longestScope || !text.endsWith('.*')) return false
  const below = text.slice(0, -2)
  const names = Object.keys(table)
  const isAbove = names.some((name) => name === below || name.startsWith(`${below}.`))
  if (isAbove && !(Object.hasOwn(table, below) && table[below] === 'none')) return true
  return isScope(below) && names.some((name) => table[name] === 'some' && below.startsWith(`${name}.`))
}
