import { parseGrantLine, scopeForms } from '../../../agents/grant.ts'

/** Scopes with one exact name, which can be offered directly. */
export const exactScopes = scopeForms.filter((form) => !/[<*]/.test(form))

type Kind = 'value' | 'credential' | 'wallet' | 'vault'
/** The prefix of a scope in a grant, and what it means. */
export type ScopeChoice = readonly [before: string, meaning: string]

/** The grants that are possible for a kind of scope, with the usual grant first. */
const choices: Readonly<Record<Kind, readonly ScopeChoice[]>> = {
  value: [
    ['', 'Read, ask before writing'],
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
    ['', 'Sign within its policy'],
    ['ask:', 'Ask every time'],
    ['address:', 'See the address only'],
  ],
  vault: [['', 'Lock the vault']],
}

export function kindOfScope(scope: string): Kind {
  const [first = ''] = scope.split('.', 1)
  if (first === 'credentials') return 'credential'
  return first === 'wallet' || first === 'vault' ? first : 'value'
}

/**
 * The grants that the page offers. Only a terminal command can let an agent read values under the owner's own names without
 * approval.
 */
export const choicesOf = (scope: string): readonly ScopeChoice[] =>
  choices[kindOfScope(scope)].filter(([before]) => !scope.startsWith('custom.') || before.startsWith('ask:'))

/** A grant, parsed. */
export function splitGrant(line: string): { readonly before: string; readonly scope: string } {
  const at = line.lastIndexOf(':') + 1
  return { before: line.slice(0, at), scope: line.slice(at) }
}

/** Whether a grant gives an agent the secret itself, which the owner cannot undo. */
export function isLoud(line: string): boolean {
  const { before, scope } = splitGrant(line)
  return kindOfScope(scope) === 'credential' && /(?:^|:)read:$/.test(before)
}

/** The vault's error message for a grant. Undefined if the grant is valid. */
export function problemOf(line: string): string | undefined {
  try {
    parseGrantLine(line)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
