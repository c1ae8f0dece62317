import { VaultError } from '../errors/error.ts'
import { grantCovers, namesSecrets, parseGrant } from '../storage/records/scopes.ts'

/** What an agent may do with what a scope names. */
export type GrantVerb = 'read' | 'write' | 'call' | 'sign' | 'address' | 'lock'

/** One line of an agent's grants, taken apart. */
export interface Grant {
  /** As the owner wrote it. */
  readonly text: string
  readonly scope: string
  readonly verb: GrantVerb
  /** True when the owner is asked every time. */
  readonly asks: boolean
}

const verbs: readonly GrantVerb[] = ['read', 'write', 'call', 'sign', 'address', 'lock']
const secrets = 'credentials.api'

/**
 * Reads one line of grants: `[ask:|auto:][verb:]scope`, the scope exact or ending in `.*`.
 *
 * Without a verb a line means what is usual for its scope: values may be read, and written when the owner agrees each
 * time; credentials may be used by `/v1/vault/call` and never read; wallets may sign within the rules. Reading a
 * credential has to be said (`read:credentials.api.github`), and then the owner is asked each time. `vault.lock` lets an
 * agent lock the vault, unasked: whoever would have to be asked could lock it as well.
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
      `Expected a grant such as read:${scope}; the words before it are ask, auto, ${verbs.join(', ')}.`,
    )
  }
  const kind = kindOf(scope)
  const asked = (one: GrantVerb): boolean => asksByDefault(kind, one)
  const wanted = verb === undefined ? usual[kind] : [verb as GrantVerb]
  for (const one of wanted)
    if (!possible[kind].includes(one)) throw invalid(`Nothing can be done by ${one} with ${scope}.`)
  if (mode === 'auto' && kind === 'credential' && wanted.includes('read')) {
    throw invalid(
      'A credential is never read without the owner. Grant it for calls, or as read: with approval.',
    )
  }
  if (mode === 'ask' && kind === 'vault')
    throw invalid('Nobody is asked about a lock. Grant vault.lock, or nothing.')
  return wanted.map((one) => ({
    text,
    scope,
    verb: one,
    asks: mode === undefined ? asked(one) : mode === 'ask',
  }))
}

/**
 * What an agent's grants say about one act.
 *
 * @returns undefined when nothing allows it; otherwise whether the owner has to be asked. The most open line counts.
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

/** The grants by which an agent gets secrets themselves. */
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

/** Signing is judged by the rules and their budgets; `ask:` there means that even they can't allow it alone. */
function asksByDefault(kind: Kind, verb: GrantVerb): boolean {
  return verb === 'write' || (kind === 'credential' && verb === 'read')
}

function kindOf(scope: string): Kind {
  // `credentials.*` covers credentials only, so the first segment decides.
  if (scope === secrets || scope.startsWith('credentials.')) return 'credential'
  if (scope.startsWith('vault.')) return 'vault'
  return scope.startsWith('wallet.') ? 'wallet' : 'value'
}

const invalid = (message: string): VaultError => new VaultError('VALIDATION_ERROR', message)
